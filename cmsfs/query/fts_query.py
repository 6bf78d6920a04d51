"""Compiles the query language of search for the full-text index.

Words, "exact phrases", and the operators AND, OR, NOT in upper case; lower or mixed case are words.
Several words are read as OR unless there is an operator; then neighbours without one are AND.  NOT binds
tighter than AND, AND tighter than OR.  A word also finds longer words that begin with it in names; a phrase
is found exactly.  Punctuation means nothing, and an operator without operands is left out.

The index has no unary NOT, so negation is pushed up: what remains is one expression and whether the
query asks for what it matches or for everything else.  `NOT "improbable"` is thereby all there is.

Rule: whatever is typed compiles; nothing a person types is a syntax error.
"""

import re
from dataclasses import dataclass

# More terms than anybody types; the index's own limit is on depth, which terms side by side do not use.
MAX_TERMS = 256

COLUMNS = ("name", "description", "file_content", "comments", "tags")

_TOKEN = re.compile(r'"([^"]*)(?:"|$)|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression for the index; with `complement`, what it does not match is wanted."""

    match: str
    complement: bool


class TooLong(ValueError):
    """The query has more terms than can be searched for."""


@dataclass(frozen=True, slots=True)
class _Term:
    text: str
    phrase: bool


def compile_query(text: str, columns: tuple[str, ...] = COLUMNS) -> Compiled | None:
    """The query for the index, matched against these columns; None if it holds no words at all.

    Raises `TooLong`.
    """
    alternatives = _parse(text)
    parts = [part for part in (_all_of(factors, columns) for factors in alternatives) if part is not None]
    found = _any_of(parts)
    if found is None:
        return None
    if len(columns) < len(COLUMNS):
        return Compiled(f"{{{' '.join(columns)}}} : ({found.match})", found.complement)
    return found


def _parse(text: str) -> list[list[tuple[_Term, bool]]]:
    """The query as an OR of ANDs of terms, each with whether it is negated."""
    # A NUL would end the expression for the index.
    tokens = [(found[1], found[2]) for found in _TOKEN.finditer(text.replace("\0", " "))]
    boolean = any(word in ("AND", "OR", "NOT") for _, word in tokens)
    alternatives: list[list[tuple[_Term, bool]]] = [[]]
    negated = False
    terms = 0
    for phrase, word in tokens:
        if word == "NOT":
            negated = not negated
        elif word == "OR":
            alternatives.append([])
            negated = False
        elif word == "AND":
            negated = False
        else:
            term = _Term(phrase or word or "", phrase is not None)
            if any(character.isalnum() for character in term.text):
                if not boolean:
                    alternatives.append([])
                alternatives[-1].append((term, negated))
                terms += 1
            negated = False
    if terms > MAX_TERMS:
        raise TooLong(f"has more than {MAX_TERMS} words")
    return [factors for factors in alternatives if factors]


def _all_of(factors: list[tuple[_Term, bool]], columns: tuple[str, ...]) -> Compiled | None:
    wanted = [_expression(term, columns) for term, negated in factors if not negated]
    unwanted = [_expression(term, columns) for term, negated in factors if negated]
    if not wanted:
        return Compiled(_join("OR", unwanted), complement=True)
    match = _join("AND", wanted)
    return Compiled(f"({match} NOT {_join('OR', unwanted)})" if unwanted else match, complement=False)


def _any_of(parts: list[Compiled]) -> Compiled | None:
    if not parts:
        return None
    wanted = [part.match for part in parts if not part.complement]
    everything_but = [part.match for part in parts if part.complement]
    if not everything_but:
        return Compiled(_join("OR", wanted), complement=False)
    # P or not N is everything but what is N and not P.
    missed = _join("AND", everything_but)
    return Compiled(f"({missed} NOT {_join('OR', wanted)})" if wanted else missed, complement=True)


def _expression(term: _Term, columns: tuple[str, ...]) -> str:
    quoted = '"' + term.text + '"'
    if term.phrase or "name" not in columns:
        return quoted
    return f"({quoted} OR name : {quoted} *)"


def _join(operator: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + f" {operator} ".join(parts) + ")"
