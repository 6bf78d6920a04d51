"""A reference implementation of search, item by item; and random searches with their meaning.

It follows the rules of the API (cmsfs/service/API.md) in the simplest form, without an index or SQL.
"""

import random
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

COLUMNS = ("name", "description", "file_content", "comments", "tags")

# Words in many scripts, with precomposed and combining accents, digits, letters without case, and a very long
# one.
WORDS = (
    *(
        "ant",
        "antler",
        "Ant",
        "ANTLERS",
        "bee",
        "bees",
        "report",
        "Report",
        "re",
        "2024",
        "20",
        "v2",
        "x",
        "not",
    ),
    *(
        "and",
        "or",
        "été",
        "Ete",
        "ÉTÉ",
        "e\u0301te\u0301",
        "Straße",
        "strasse",
        "naïve",
        "Zoë",
        "İstanbul",
        "ﬁle",
    ),
    *(
        "Мой",
        "мои",
        "МОЙ",
        "Σίσυφος",
        "ΣΊΣΥΦΟΣ",
        "σίσυφοσ",
        "東京都",
        "東京",
        "都",
        "한글",
        "하",
        "कि",
        "क",
        "ไทย",
    ),
    *(
        "ñandú",
        "Ǻ",
        "å",
        "Å",
        "Ⅷ",
        "x²",
        "½",
        "٣",
        "Ａｂ",
        "😀",
        "a😀b",
        "ⅷ",
        "ǆ",
        "Ǆ",
        "ſ",
        "long" * 150,
        "longlong",
    ),
)
JOINTS = (
    " ",
    " ",
    " ",
    " ",
    "-",
    "_",
    ".",
    ", ",
    "'",
    "&",
    "(",
    ")",
    "—",
    "\u00a0",
    "*",
    ":",
    "^",
    "+",
    "\u3000",
)
_MARKS = {*range(0x300, 0x305), *range(0x306, 0x30D), 0x30F, 0x311, 0x31B, *range(0x323, 0x329)}
_MARKS |= {0x32D, 0x32E, 0x330, 0x331}
# Letters with a different form at the end of a word, or in old prints.
_SAME = dict(zip("ςſ", "σs", strict=True))


def words(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits; case and Latin accents are ignored."""
    found = [""]
    for character in text:
        if ord(character) in _MARKS and found[-1]:
            continue
        if unicodedata.category(character)[0] in "LN":
            found[-1] += _folded(character)
        elif found[-1]:
            found.append("")
    return [one for one in found if one]


def _folded(character: str) -> str:
    decomposed = unicodedata.normalize("NFD", character)
    base, marks = decomposed[0], decomposed[1:]
    if base.isascii() and all(ord(one) in _MARKS for one in marks):
        return base.lower()
    lower = character.lower()
    return _SAME.get(lower, lower if len(lower) == 1 else character)


@dataclass(frozen=True, slots=True)
class SearchedItem:
    """An item at the service: `texts` are words by column, `above` the indices of its folders."""

    place: int
    kind: str
    texts: dict[str, list[str]]
    above: frozenset[int]
    owner: str
    status: int
    size: int
    extension: str
    created: int
    modified: int
    is_visible: bool


@dataclass(frozen=True, slots=True)
class SearchTerm:
    text: str
    is_phrase: bool
    is_negated: bool

    def __str__(self) -> str:
        return "NOT " * self.is_negated + (f'"{self.text}"' if self.is_phrase else self.text)

    def holds(self, item: SearchedItem, columns: Iterable[str]) -> bool:
        wanted = words(self.text)
        for column in columns:
            there = item.texts[column]
            for start in range(len(there) - len(wanted) + 1 if wanted else 0):
                here = there[start : start + len(wanted)]
                if column == "name" and not self.is_phrase:
                    *most, last = wanted
                    if here[:-1] == most and here[-1].startswith(last):
                        return not self.is_negated
                elif here == wanted:
                    return not self.is_negated
        return self.is_negated


@dataclass(slots=True)
class RandomSearch:
    """A search: its parameters (items are given by index) and their meaning."""

    text: str
    alternatives: list[list[SearchTerm]]
    params: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = COLUMNS
    ancestors: tuple[int, ...] = ()
    owners: tuple[str, ...] = ()
    conditions: list[Callable[[SearchedItem], bool]] = field(default_factory=list)
    statuses: tuple[int, ...] = (0,)

    @property
    def is_ordered(self) -> bool:
        """Return whether the order is defined: not by relevance, which depends on the engine."""
        everything = any(all(term.is_negated for term in terms) for terms in self.alternatives)
        return everything or self.params.get("sort") == "modified_at"

    def matches(self, items: Iterable[SearchedItem]) -> list[int]:
        """Return the indices of the results, in order."""
        found = [item for item in items if self._finds(item)]
        by_change = self.params.get("sort") == "modified_at"
        found.sort(key=lambda item: (item.modified if by_change else item.created, item.place))
        if by_change and self.params.get("direction", "DESC") == "DESC":
            found.reverse()
        return [item.place for item in found]

    def _finds(self, item: SearchedItem) -> bool:
        return (
            item.is_visible
            and item.status in self.statuses
            and (not self.ancestors or bool(item.above & set(self.ancestors)))
            and (not self.owners or item.owner in self.owners)
            and all(condition(item) for condition in self.conditions)
            and any(all(term.holds(item, self.columns) for term in terms) for terms in self.alternatives)
        )


def moment(number: int) -> str:
    return datetime.fromtimestamp(number, UTC).isoformat().replace("+00:00", "Z")


def random_text(chance: random.Random, most: int) -> str:
    """Return words of several scripts with all kinds of separators."""
    text = ""
    for _ in range(chance.randint(0, most)):
        text += chance.choice(WORDS) + chance.choice(JOINTS)
    return text


class SearchMaker:
    """Generate random searches among so many items, some of which are folders."""

    def __init__(self, chance: random.Random, items: list[SearchedItem]) -> None:
        self._chance = chance
        self._items = items
        self._folders = [item.place for item in items if item.kind == "folder" and item.status == 0]
        self._folders = [one for one in self._folders if items[one].is_visible]

    def make(self) -> RandomSearch:
        made = self._query()
        for add in (self._types, self._times, self._sizes, self._places, self._people, self._order):
            add(made)
        return made

    def _is(self, of: int) -> bool:
        return self._chance.randrange(of) == 0

    def _term(self, *, may_negate: bool = True) -> SearchTerm:
        is_phrase = self._is(3)
        text = self._chance.choice(WORDS)
        while is_phrase and self._is(2):
            text += self._chance.choice(JOINTS) + self._chance.choice(WORDS)
        if not is_phrase and self._is(4):
            text = text[: self._chance.randint(1, len(text))]  # a beginning
        if not is_phrase and self._is(6):
            text += self._chance.choice("-_.'&(*:^+") + self._chance.choice(WORDS)
        # Otherwise it would be an operator, or be ignored.
        if not any(character.isalnum() for character in text):
            return self._term(may_negate=may_negate)
        return SearchTerm(text, is_phrase, may_negate and self._is(4))

    def _query(self) -> RandomSearch:
        if self._is(10):
            return RandomSearch('NOT "improbable"', [[SearchTerm("improbable", True, True)]])
        if self._is(3):
            plain = [self._term(may_negate=False) for _ in range(self._chance.randint(1, 4))]
            return RandomSearch(" ".join(map(str, plain)), [[term] for term in plain])
        alternatives = [
            [self._term() for _ in range(self._chance.randint(1, 3))]
            for _ in range(self._chance.randint(1, 3))
        ]
        joined = [" AND ".join(map(str, terms)) for terms in alternatives]
        return RandomSearch(" OR ".join(joined), alternatives)

    def _types(self, made: RandomSearch) -> None:
        if self._is(4):
            columns = tuple(self._chance.sample(COLUMNS, self._chance.randint(1, 3)))
            made.columns = columns
            made.params["content_types"] = ",".join(columns)
        if self._is(4):
            kind = self._chance.choice(["file", "folder", "web_link"])
            made.params["type"] = kind
            made.conditions.append(lambda item: item.kind == kind)
        if self._is(8):
            wanted = self._chance.sample(["txt", "md", "été", "csv"], 2)
            made.params["file_extensions"] = ",".join(one.upper() for one in wanted)
            made.conditions.append(lambda item: item.kind == "file" and item.extension in wanted)
        if self._is(8):
            status = self._chance.choice(["trashed_only", "all_items"])
            made.params["trash_content"] = status
            made.statuses = (1,) if status == "trashed_only" else (0, 1)

    def _times(self, made: RandomSearch) -> None:
        for name, key in (("created_at_range", "created"), ("updated_at_range", "modified")):
            if self._is(6):
                times = sorted(getattr(one, key) for one in self._chance.choices(self._items, k=2))
                first, last = (None if self._is(4) else time for time in times)
                self._range(made, name, key, first, last, moment)

    def _sizes(self, made: RandomSearch) -> None:
        if self._is(6):
            sizes = sorted(one.size for one in self._chance.choices(self._items, k=2))
            first, last = (None if self._is(4) else size for size in sizes)
            if (first, last) != (None, None):
                made.conditions.append(lambda item: item.kind != "web_link")
            self._range(made, "size_range", "size", first, last, str)

    def _range(
        self,
        made: RandomSearch,
        name: str,
        key: str,
        first: int | None,
        last: int | None,
        said: Callable[[int], str],
    ) -> None:
        if first is None and last is None:
            return
        made.params[name] = ",".join("" if end is None else said(end) for end in (first, last))
        made.conditions.append(
            lambda item: (
                (first is None or getattr(item, key) >= first)
                and (last is None or getattr(item, key) <= last)
            )
        )

    def _places(self, made: RandomSearch) -> None:
        if self._is(4):
            made.ancestors = tuple(self._chance.sample(self._folders, self._chance.randint(1, 2)))

    def _people(self, made: RandomSearch) -> None:
        if self._is(6):
            made.owners = (self._chance.choice(["ann@example.com", "uwe@example.com"]),)

    def _order(self, made: RandomSearch) -> None:
        if self._is(2):
            made.params["sort"] = "modified_at"
            if self._is(2):
                made.params["direction"] = self._chance.choice(["ASC", "DESC"])


def page_of(places: list[int], params: dict[str, Any]) -> list[int]:
    """Return the part of the results on a page."""
    return places[params["offset"] : params["offset"] + params["limit"]]
