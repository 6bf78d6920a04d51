"""The public API as its description has it: our own table of its facts, and exchanges held against it.

`tests/contract/public_api` has the tables; a line that begins with spaces continues the one before it.

    operations.txt   METHOD PATH STATUSES -> SHAPE ? NAMES OF THE QUERY < FIELDS OF THE BODY
    shapes.txt       SHAPE = FIELDS

A status is one of success, or `STATUS=SHAPE` of a refusal; others have the shape of all errors.
A field is `name:type`, `name?:type` if it need not be there or may be null, and `name?:type~` if it may be
sent as null.  A type is `text`, `integer`, `number`, `flag`, `time`, `date`, `any`, `nothing`, `bytes`,
words in parentheses (`+` stands for a space), `[TYPE]`, `{TYPE}`, `TYPE|TYPE` or the name of a shape.  One
that ends with `...` has other fields besides.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[1] / "contract" / "public_api"
ROOTS = ("/api/2.0", "/2.0", "/api", "")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_LINE = re.compile(r"(\w+) (\S+) (\S+) -> (\S+)(?: \? ([^<]*))?(?: < (.*))?")
_PLAIN = {"integer": int, "number": (int, float), "flag": bool, "text": str, "time": str, "date": str}
_WHOLE = {"file": "FileFull", "folder": "FolderFull", "web_link": "WebLink", "user": "UserFull"}
_NAMES = {int: "integer", float: "number", bool: "flag", str: "text", list: "list", dict: "object"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as far as they are text."""

    method: str
    path: str
    query: frozenset[str]
    asked: Any
    status: int
    answered: Any
    length: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    required: bool
    null: bool
    type: str


@dataclass(frozen=True, slots=True)
class PublicOperation:
    """What is known of one operation."""

    line: str
    statuses: frozenset[int]
    refusals: dict[int, str]
    gives: str
    query: frozenset[str]
    body: str
    pattern: re.Pattern[str]


def lines(name: str) -> list[str]:
    """The lines of a table, each whole."""
    text = (TABLES / name).read_text(encoding="utf-8")
    return re.sub(r"\n +", " ", text).replace(", ", ",").splitlines()


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.escape(path).replace(r"\{\}", r"[^/]+"))


@cache
def operations() -> dict[str, PublicOperation]:
    found = {}
    for line in lines("operations.txt"):
        method, path, statuses, gives, query, body = _LINE.fullmatch(line).groups(default="")
        found[f"{method} {path}"] = PublicOperation(
            line=f"{method} {path}",
            statuses=frozenset(int(one[:3]) for one in statuses.split(",")),
            refusals={int(one[:3]): one[4:] for one in statuses.split(",") if "=" in one},
            gives=gives,
            query=frozenset(query.split()),
            body=body,
            pattern=_pattern(path),
        )
    return found


@cache
def shapes() -> dict[str, str]:
    parts = [line.partition(" = ") for line in lines("shapes.txt")]
    return {name: fields for name, _, fields in parts}


@cache
def _by_method(method: str) -> list[PublicOperation]:
    """Those with the fewest variables first: `/files/content` is no file."""
    found = [one for one in operations().values() if one.line.startswith(f"{method} ")]
    return sorted(found, key=lambda one: one.line.count("{}"))


@cache
def find(method: str, path: str) -> PublicOperation | None:
    """The operation of a request to this path."""
    for root in ROOTS:
        below = path.removeprefix(root).removesuffix("/")
        if path.startswith(root):
            for one in _by_method(method):
                if one.pattern.fullmatch(below):
                    return one
    return None


@cache
def _fields(text: str) -> tuple[dict[str, Field], bool]:
    """The fields of a shape or a body, and whether it may have others."""
    found = {}
    for word in text.split():
        if word != "...":
            name, _, kind = word.partition(":")
            found[name.rstrip("?")] = Field(
                name.rstrip("?"), not name.endswith("?"), kind.endswith("~"), kind.rstrip("~")
            )
    return found, "..." in text.split()


@cache
def _choices(kind: str) -> tuple[str, ...]:
    """The parts of `A|B`, if it is one at its outermost."""
    found, depth = [""], 0
    for letter in kind:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "|" and not depth:
            found.append("")
        else:
            found[-1] += letter
    return tuple(found)


class Check:
    """Holds values against types; `found` has what does not conform, each at its place."""

    def __init__(self, *, sent: bool = False, chosen: bool = False) -> None:
        self.found: list[str] = []
        self._sent = sent  # by a client: null is taken only where the description says so
        self._chosen = chosen  # by `fields`: what else would be there need not be, and whatever was asked may

    def value(self, kind: str, value: Any, place: str = "") -> None:
        if kind in ("any", "bytes"):
            return
        choices = _choices(kind)
        if len(choices) > 1:
            self._choose(choices, value, place)
        elif kind.startswith("("):
            if not isinstance(value, str) or value.replace(" ", "+") not in kind[1:-1].split(","):
                self.found.append(f"{place}: {value!r} is none of {kind}")
        elif kind.startswith("["):
            if self._is(list, value, place):
                for one in value:
                    self.value(kind[1:-1], one, f"{place}[]")
        elif kind.startswith("{"):
            if self._is(dict, value, place):
                for one in value.values():
                    self.value(kind[1:-1], one, f"{place}.*")
        elif kind in _PLAIN:
            self._plain(kind, value, place)
        elif self._is(dict, value, place):
            self.fields(shapes()[kind], value, place)

    def fields(self, text: str, value: dict[str, Any], place: str = "") -> None:
        known, more = _fields(text)
        for name, field in known.items():
            if name not in value:
                if field.required and not (self._chosen and name not in ("id", "type")):
                    self.found.append(f"{place}.{name}: missing")
            elif value[name] is None:
                if field.required or (self._sent and not field.null):
                    self.found.append(f"{place}.{name}: null")
            else:
                self.value(field.type, value[name], f"{place}.{name}")
        if not more:
            self._others({name: one for name, one in value.items() if name not in known}, value, place)

    def _others(self, others: dict[str, Any], of: dict[str, Any], place: str) -> None:
        """What a shape does not know: what the whole of an item has, may be asked for anywhere."""
        whole = _WHOLE.get(of.get("type", "")) if self._chosen else None
        known = _fields(shapes()[whole])[0] if whole else {}
        for name, value in others.items():
            if name not in known:
                self.found.append(f"{place}.{name}: not a field")
            elif value is not None:
                self.value(known[name].type, value, f"{place}.{name}")

    def _choose(self, choices: tuple[str, ...], value: Any, place: str) -> None:
        """Against the choice that it conforms to; failing that, the one that says its type."""
        tried: list[list[str]] = []
        for one in choices:
            check = Check(sent=self._sent, chosen=self._chosen)
            check.value(one, value, place)
            if not check.found:
                return
            tried.append(check.found)
        named = [one for one in tried if not any(f"{place}.type: " in line for line in one)]
        nearest: list[str] = min(named or tried, key=len)
        self.found += nearest

    def _plain(self, kind: str, value: Any, place: str) -> None:
        right = isinstance(value, _PLAIN[kind]) and (kind == "flag" or not isinstance(value, bool))  # type: ignore[arg-type]
        if kind == "integer" and isinstance(value, float):
            right = value.is_integer()
        pattern = {"time": _TIME, "date": _DATE}.get(kind)
        if not right:
            self.found.append(f"{place}: {_NAMES.get(type(value), 'null')}, not {kind}")
        elif pattern and not pattern.fullmatch(value):
            self.found.append(f"{place}: {value!r} is no {kind}")

    def _is(self, kind: type, value: Any, place: str) -> bool:
        if isinstance(value, kind):
            return True
        self.found.append(f"{place}: {_NAMES.get(type(value), 'null')}, not {_NAMES[kind]}")
        return False


def problems_of_answer(one: PublicOperation, exchange: Exchange) -> list[str]:
    """Where an answer is not as described."""
    check = Check(chosen="fields" in exchange.query)
    if exchange.status >= 400:
        usual = "OAuth2Error" if one.line.startswith("POST /oauth2/") else "ClientError"
        kind = one.refusals.get(exchange.status, usual)
        if exchange.answered is None:
            return [f"{one.line} {exchange.status}: no body"]
        check.value(kind, exchange.answered)
    elif exchange.status not in one.statuses:
        check.found.append(": no such status")
    if exchange.status < 300:
        if one.gives == "nothing" or exchange.status == 204:
            check.found += [": a body"] if exchange.length else []
        elif one.gives != "bytes" and (exchange.answered is not None or exchange.status != 202):
            check.value(one.gives, exchange.answered)
    return [f"{one.line} {exchange.status}{line}" for line in dict.fromkeys(check.found)]


def problems_of_request(one: PublicOperation, exchange: Exchange) -> list[str]:
    """Where a request that was accepted is not as described."""
    found = [f"{one.line} ?{name}: not a parameter" for name in sorted(exchange.query - one.query)]
    check = Check(sent=True)
    if one.body.startswith("*:"):
        check.value(one.body[2:], exchange.asked)
    elif exchange.asked is not None or one.body:
        check.fields(one.body, {} if exchange.asked is None else exchange.asked)
    return found + [f"{one.line} <{line}" for line in dict.fromkeys(check.found)]


def problems(exchange: Exchange) -> list[str]:
    """What of an exchange is not as the public description has it."""
    one = find(exchange.method, exchange.path)
    if one is None:
        return []
    asked = problems_of_request(one, exchange) if exchange.status < 400 else []
    return asked + problems_of_answer(one, exchange)
