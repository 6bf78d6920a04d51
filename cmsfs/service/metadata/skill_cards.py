"""The cards that programs put on files: metadata of the global template `boxSkillsCards`.

An instance has one key, `cards`: a list of objects, which mean something to who wrote them.  They are changed
one by one, by their place.

Rule: cards are kept as they were sent; what is no card of a known kind, or too much, is refused.
"""

import json
from typing import Any

from cmsfs.models.content import metadata
from cmsfs.service import problems

KEY = "boxSkillsCards"
_CARDS = "cards"
_KINDS = ("keyword", "timeline", "transcript", "status")
MAX_CARDS = 1000
MAX_BYTES = 256 * 1024


def checked(data: dict[str, Any]) -> dict[str, Any]:
    """The values as they are stored; 400 `schema_validation_failed` for what are no cards."""
    for key in data:
        if key != _CARDS:
            raise _invalid(key, "is not a field of the template")
    cards = data.get(_CARDS)
    if not isinstance(cards, list) or len(cards) > MAX_CARDS or not all(map(_is_card, cards)):
        raise _invalid(_CARDS, f"must be a list of up to {MAX_CARDS} skill cards: {', '.join(_KINDS)}")
    if len(json.dumps(cards)) > MAX_BYTES:
        raise _invalid(_CARDS, f"has more than {MAX_BYTES} bytes")
    return data


def _is_card(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and one.get("type") == "skill_card"
        and one.get("skill_card_type") in _KINDS
        and all(isinstance(one.get(name), dict) for name in ("skill", "invocation"))
    )


def patched(data: dict[str, Any], operations: list[metadata.PatchStep]) -> dict[str, Any]:
    """The values after a JSON Patch of `/cards` or of one card: `/cards/0`, or `/cards/-` behind the last."""
    cards = list(data[_CARDS])
    for one in operations:
        word, _, place = one.path.removeprefix("/").partition("/")
        if word != _CARDS or not one.path.startswith("/") or one.op in ("move", "copy"):
            raise problems.invalid("path", f"{one.op} of {one.path!r} is not possible")
        if not place:
            cards = _whole(cards, one)
        else:
            _single(cards, _place(place, cards, one), one)
    return checked({_CARDS: cards})


def _whole(cards: list[Any], one: metadata.PatchStep) -> list[Any]:
    if one.op == "remove":
        return []
    if one.op == "test":
        _test(cards, one)
        return cards
    if not isinstance(one.value, list):
        raise _invalid(_CARDS, "must be a list")
    return list(one.value)


def _single(cards: list[Any], place: int, one: metadata.PatchStep) -> None:
    if one.op == "add":
        cards.insert(place, one.value)
    elif one.op == "remove":
        del cards[place]
    elif one.op == "replace":
        cards[place] = one.value
    else:
        _test(cards[place], one)


def _place(text: str, cards: list[Any], one: metadata.PatchStep) -> int:
    if one.op == "add" and text == "-":
        return len(cards)
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else len(cards) + 1
    if number >= len(cards) + (one.op == "add"):
        raise problems.Refused(409, "failed_json_patch_application", f"There is no card {text}.")
    return number


def _test(found: Any, one: metadata.PatchStep) -> None:
    if found != one.value:
        said = f"{one.path} has another value."
        raise problems.Refused(409, "failed_json_patch_application", said)


def _invalid(key: str, said: str) -> problems.Refused:
    return problems.invalid(key, said, code="schema_validation_failed")
