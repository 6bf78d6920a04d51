"""Compiles the condition of a metadata query to SQL: `amount >= :least AND (name LIKE 'A%' OR paid IS NULL)`.

A field of the template stands on the left, a parameter (`:name`) or a literal on the right of `=`, `!=`,
`<>`, `<`, `<=`, `>`, `>=`, `[NOT] LIKE`, `[NOT] ILIKE`, `[NOT] IN`, `HASANY` and `HASALL`; `IS [NOT] NULL`
has no value.  Conditions are combined by AND, OR, NOT and parentheses.  As in SQL, an item whose instance has
no value for a field is found neither by a comparison nor by its negation.

Rule: every token is read once, and nothing of the text is in the SQL: fields and values are arguments.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cmsfs.models.content import metadata
from cmsfs.service import problems
from cmsfs.service.metadata.metadata_query import SqlCondition

# Parentheses and NOTs within one another; SQLite parses expressions of a depth of 1000.
MAX_DEPTH = 50
# Comparisons, and values in lists; what people write has a dozen.
MAX_TERMS = 500
# A longer pattern would cost more for each item than reading it.
MAX_PATTERN = 500

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![A-Za-z0-9_.]))
    | (?P<param>:[A-Za-z_][A-Za-z0-9_]*)
    | (?P<quoted>`[^`]+`|"[^"]+")
    | (?P<word>[A-Za-z_$][A-Za-z0-9_$-]*)
    | (?P<sign><=|>=|!=|<>|[=<>(),])
    )""",
    re.VERBOSE,
)
_WORDS: Final = {"AND", "OR", "NOT", "LIKE", "ILIKE", "IN", "IS", "NULL", "HASANY", "HASALL"}
_COMPARISONS: Final = {"=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_VALUE: Final = "json_extract(m.data, ?)"
# The options of an item's instance that are among some.
_AMONG: Final = (
    "FROM json_each(m.data, ?) AS given"
    " WHERE given.value IN (SELECT wanted.value FROM json_each(?) AS wanted)"
)


def compile_condition(
    text: str, params: Mapping[str, Any], types: Mapping[str, str], *, is_free: bool = False
) -> SqlCondition:
    """A condition on `metadata_instance AS m`; 400 for what is none on fields of these types.

    `is_free`: any other field is a text.
    """
    return _Parser(text, params, types, is_free=is_free).whole()


def typed(value: str, of_type: str) -> str:
    """A value out of JSON, as a field of this type is compared; SQL."""
    return f"CAST({value} AS DOUBLE PRECISION)" if of_type == "float" else value


def value_of(of_type: str) -> str:
    """An instance's value of a field, whose path is the argument; SQL."""
    return typed(_VALUE, of_type)


def path(key: str) -> str:
    """Where a field is in the JSON of an instance."""
    return f'$."{key}"'


class _Parser:
    """Reads tokens from left to right; each method reads what its name says."""

    def __init__(
        self, text: str, params: Mapping[str, Any], types: Mapping[str, str], *, is_free: bool
    ) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._terms = 0
        self._params = params
        self._types = types
        self._keys = {key.lower(): key for key in types}
        self._is_free = is_free
        self._args: list[Any] = []

    def whole(self) -> SqlCondition:
        sql = self._either(0)
        if self._at < len(self._tokens):
            raise self._failed("the end, AND or OR")
        return SqlCondition(sql, self._args)

    def _either(self, depth: int) -> str:
        parts = [self._both(depth)]
        while self._takes("OR"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _both(self, depth: int) -> str:
        parts = [self._negated(depth)]
        while self._takes("AND"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _negated(self, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise refused(f"has more than {MAX_DEPTH} parentheses within one another")
        if self._takes("NOT"):
            return f"(NOT {self._negated(depth + 1)})"
        if self._takes("("):
            found = self._either(depth + 1)
            self._needs(")")
            return found
        return self._comparison()

    def _comparison(self) -> str:
        self._count()
        kind, word = self._next("a field")
        if kind == "quoted":
            word = word[1:-1]
        elif kind != "word":
            raise self._failed("a field", back=1)
        key = self._keys.get(word.lower(), word)
        of_type = self._types.get(key, "string" if self._is_free and '"' not in key else None)
        if of_type is None:
            raise refused(f"names {word!r}, which is no field of the template")
        if self._takes("IS"):
            negated = self._takes("NOT")
            self._needs("NULL")
            self._args.append(path(key))
            return f"{_VALUE} IS {'NOT ' if negated else ''}NULL"
        negated = self._takes("NOT")
        for name in ("LIKE", "ILIKE"):
            if self._takes(name):
                return self._pattern(key, of_type, negated=negated, exact=name == "LIKE")
        if self._takes("IN"):
            return self._list(key, of_type, negated=negated)
        if negated:
            raise self._failed("LIKE, ILIKE or IN")
        for name in ("HASANY", "HASALL"):
            if self._takes(name):
                if of_type != "multiSelect":
                    raise refused(f"asks for options of {word!r}, which has one value")
                return self._options(key, self._values(of_type), every=name == "HASALL")
        return self._compared(key, of_type)

    def _compared(self, key: str, of_type: str) -> str:
        _, sign = self._next("a comparison")
        if sign not in _COMPARISONS:
            raise self._failed("a comparison", back=1)
        if of_type == "multiSelect":
            if sign not in ("=", "!=", "<>"):
                raise refused(f"compares {key!r}, which has several values")
            values = [one for one in _listed(self._value()) if _is_text(one, key)]
            return self._options(key, values, negated=sign != "=")
        value = _fitting(key, of_type, self._value())
        self._args += [path(key), value]
        return f"{value_of(of_type)} {_COMPARISONS[sign]} ?"

    def _pattern(self, key: str, of_type: str, *, negated: bool, exact: bool) -> str:
        if of_type not in ("string", "enum"):
            raise refused(f"matches {key!r}, which is no text")
        pattern = self._value()
        if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
            raise refused(f"has a pattern for {key!r} that is no text of up to {MAX_PATTERN} characters")
        self._args += [_glob(pattern) if exact else pattern, path(key)]
        word = f"glob(?, {_VALUE})" if exact else f"like(?, {_VALUE}, '\\')"
        return f"{'NOT ' if negated else ''}{word}"

    def _list(self, key: str, of_type: str, *, negated: bool) -> str:
        values = self._values(of_type)
        if of_type == "multiSelect":
            return self._options(key, [one for one in values if _is_text(one, key)], negated=negated)
        self._args += [path(key), json.dumps([_fitting(key, of_type, one) for one in values])]
        value, word = value_of(of_type), "NOT IN" if negated else "IN"
        return f"{value} {word} (SELECT {typed('wanted.value', of_type)} FROM json_each(?) AS wanted)"

    def _options(self, key: str, values: Sequence[Any], *, negated: bool = False, every: bool = False) -> str:
        wanted = sorted({one for one in values if _is_text(one, key)})
        self._args += [path(key), json.dumps(wanted)]
        if every:
            self._args.append(len(wanted))
            return f"(SELECT count(DISTINCT given.value) {_AMONG}) = ?"
        if not negated:
            return f"EXISTS (SELECT 1 {_AMONG})"
        self._args.append(path(key))
        return f"(NOT EXISTS (SELECT 1 {_AMONG}) AND {_VALUE} IS NOT NULL)"

    def _values(self, of_type: str) -> list[Any]:
        """What IN, HASANY and HASALL are about: a list in parentheses, or a parameter that is one."""
        if not self._takes("("):
            return _listed(self._value())
        found: list[Any] = []
        while True:
            found += _listed(self._value())
            if self._takes(")"):
                return found
            self._needs(",")

    def _value(self) -> Any:
        self._count()
        kind, text = self._next("a value")
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return float(text)
        if kind == "param":
            if text[1:] not in self._params:
                raise problems.invalid("query_params", f"has no {text[1:]!r}", code="invalid_query")
            return self._params[text[1:]]
        raise self._failed("a value", back=1)

    def _count(self) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise refused(f"has more than {MAX_TERMS} fields and values")

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise self._failed(wanted)
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, word: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] in (("sign", word), ("keyword", word))
        self._at += found
        return found

    def _needs(self, word: str) -> None:
        if not self._takes(word):
            raise self._failed(word)

    def _failed(self, wanted: str, *, back: int = 0) -> problems.Refused:
        at = self._at - back
        found = f"at {self._tokens[at][1][:50]!r}" if at < len(self._tokens) else "at its end"
        return refused(f"needs {wanted} {found}")


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at, end)
        if token is None or token.lastgroup is None:
            raise refused(f"cannot be read from {text[at : at + 20].strip()!r} on")
        kind, word = token.lastgroup, token[token.lastgroup]
        if kind == "word" and word.upper() in _WORDS:
            kind, word = "keyword", word.upper()
        found.append((kind, word))
        at = token.end()
    return found


def _fitting(key: str, of_type: str, value: Any) -> Any:
    """A value as an instance has it; 400 for one of another type than the field."""
    if of_type in ("string", "enum") and isinstance(value, str):
        return value
    if of_type == "float":
        try:
            number = float(value) if not isinstance(value, bool) else float("nan")
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if abs(number) < 1e300:
            return number
    if of_type == "date" and isinstance(value, str):
        try:
            return metadata.date_text(value if "T" in value.upper() else f"{value}T00:00:00Z")
        except ValueError:
            pass
    raise refused(f"compares {key!r} with what is no {of_type}")


def _is_text(value: Any, key: str) -> bool:
    if not isinstance(value, str):
        raise refused(f"compares {key!r} with what is no option")
    return True


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list) and len(value) > MAX_TERMS:
        raise refused(f"has more than {MAX_TERMS} fields and values")
    return value if isinstance(value, list) else [value]


def _glob(pattern: str) -> str:
    """A pattern of LIKE as one of GLOB, which minds the case."""
    found, escaped = [], False
    for char in pattern:
        if escaped or char not in "%_\\":
            found.append(f"[{char}]" if char in "*?[" else char)
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            found.append("*" if char == "%" else "?")
    return "".join(found)


def refused(said: str) -> problems.Refused:
    """400 for a condition that is none."""
    return problems.invalid("query", said, code="invalid_query")
