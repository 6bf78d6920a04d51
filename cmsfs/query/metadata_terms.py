"""Metadata terms in a search: `metadata:contract.status=signed`, `metadata:contract.sum=5..10`.

A scope may precede the template (`global.properties.project=x`); the default is the enterprise's.  Several
conditions are joined by AND and must be of one template, as the service requires.  Or a single condition is
in the service's metadata query language: `metadata:"contract where sum > 5 OR status = 'signed'"`.

Rule: a value is interpreted by its field's type, which the template defines (`MetadataSearch.filter`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmsfs import errors
from cmsfs.models.content import search
from cmsfs.query import ranges

_SCOPES = re.compile(r"global|enterprise(?:_\d+)?")
_QUERY = re.compile(
    r"(?:(global|enterprise(?:_\d+)?)\.)?([A-Za-z0-9_-]+)\s+where\s+(\S.*)", re.DOTALL | re.IGNORECASE
)
_CONDITION = re.compile(r"([A-Za-z0-9_.-]+?)(?:(>=|<=|=)(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """`field` `sign` `value`; the sign is =, >= or <=."""

    field: str
    sign: str
    value: str


@dataclass(frozen=True, slots=True)
class MetadataSearch:
    """Items with an instance of this template, whose fields meet all conditions, or the query."""

    scope: str
    template: str
    conditions: tuple[FieldCondition, ...] = ()
    query: str = ""  # in the language of metadata queries

    def filter(self, types: Mapping[str, str], clock: ranges.Clock) -> search.MetadataFilter:
        """The service's form; `types` are those of the template's fields, and a field that is not among
        them is a text where the template takes any.

        Raises `UserError`.
        """
        found: dict[str, Any] = {}
        for one in self.conditions:
            kind = types.get(one.field)
            if kind is None and self.template != "properties":
                known = ", ".join(types) or "no fields"
                raise _wrong(f"metadata: {self.template} has {known}, not {one.field!r}")
            value = _value(kind or "string", one, clock)
            if isinstance(value, dict) and isinstance(found.get(one.field), dict):
                value = found[one.field] | value
            elif isinstance(value, list):
                value = [*found.get(one.field, ()), *value]
            found[one.field] = value
        return search.MetadataFilter(scope=self.scope, template_key=self.template, filters=found)


def to_filters(values: Sequence[str]) -> MetadataSearch:
    """Parse the values of all `metadata:` filters of a search.  Raises `UserError`."""
    found: MetadataSearch | None = None
    for value in values:
        one = _asked(value)
        if found is not None and (found.query or one.query):
            raise _wrong("metadata: a condition after `where` stands alone; join others by AND inside it")
        if found is not None and (found.scope, found.template) != (one.scope, one.template):
            raise _wrong("metadata: a search can ask for one template only")
        found = MetadataSearch(
            one.scope,
            one.template,
            (*(found.conditions if found else ()), *one.conditions),
            one.query,
        )
    assert found is not None
    return found


def _asked(text: str) -> MetadataSearch:
    if (query := _QUERY.fullmatch(text)) is not None:
        return MetadataSearch((query[1] or "enterprise").lower(), query[2], query=query[3].strip())
    matched = _CONDITION.fullmatch(text)
    names = matched[1].split(".") if matched else []
    scope = names.pop(0) if len(names) > 1 and _SCOPES.fullmatch(names[0]) else "enterprise"
    wanted = 1 if matched is not None and matched[2] is None else 2
    if matched is None or len(names) != wanted or not all(names) or (matched[2] and not matched[3]):
        forms = 'TEMPLATE, TEMPLATE.FIELD=VALUE or "TEMPLATE where CONDITION"'
        raise _wrong(f"metadata: takes {forms}, not {text!r}")
    if matched[2] is None:
        return MetadataSearch(scope, names[0])
    return MetadataSearch(scope, names[0], (FieldCondition(names[1], matched[2], matched[3]),))


def _value(kind: str, one: FieldCondition, clock: ranges.Clock) -> Any:
    if kind == "float":
        return _range(one, lambda word: (_number(one, word),) * 2)
    if kind == "date":
        times = clock.times("metadata", one.value if one.sign == "=" else one.sign + one.value)
        ends = {"gt": times.start, "lt": times.end}
        return {key: end.isoformat() for key, end in ends.items() if end is not None}
    if one.sign != "=":
        raise _wrong(f"metadata: {one.field} is no number or date, and only = can be asked of it")
    return [one.value] if kind == "multiSelect" else one.value


def _range(one: FieldCondition, ends: Callable[[str], tuple[float, float]]) -> dict[str, float]:
    """Return a range with both ends included, as the service defines `gt` and `lt`."""
    if one.sign != "=":
        return {"gt" if one.sign == ">=" else "lt": ends(one.value)[0]}
    lower, dots, upper = one.value.partition("..")
    if not dots:
        first, last = ends(lower)
        return {"gt": first, "lt": last}
    found = {key: ends(word)[0] for key, word in (("gt", lower), ("lt", upper)) if word}
    if not found:
        raise _wrong("metadata: a range needs an end")
    return found


def _number(one: FieldCondition, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise _wrong(f"metadata: {one.field} is a number, which {word!r} is not") from None


def _wrong(sentence: str) -> errors.UserError:
    return errors.UserError(f"{sentence}.", exit_code=2)
