"""Parses search input: the service's query language, and filters such as `type:file size:1M..`.

    budget AND 2026 type:file ext:pdf,docx in:Legal/Contracts owner:me size:1M..10M modified:2026-03

A word `key:value` of the keys below is a filter; quotes hold a value with spaces together.  All else goes to
the service as it stands.  Filters hold for the whole search and are joined by AND.

Shared by the drive's `.search` and by `cmsfs search`.  What only the service or the tree knows, the ids of
folders and owners and the types of metadata fields, callers look up and hand to `ParsedSearch.query`.

Rule: what cannot be understood is a `UserError` that says what can.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal, TypeVar, get_args

from cmsfs import errors
from cmsfs.models.content import search
from cmsfs.query import filters, metadata_terms, ranges

T = TypeVar("T")

Kind = Literal["file", "folder", "web_link"]

KINDS: dict[str, Kind] = {"file": "file", "folder": "folder", "link": "web_link", "web_link": "web_link"}

# The parts of an item that are searched; "text" is an alias for a file's contents.
PARTS: dict[str, str] = {part: part for part in get_args(search.ContentType)} | {"text": "file_content"}

# A word: anything without a space, quoted pieces as wholes; the last quote may be missing.
_WORD = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')
_FILTER = re.compile(rf"({'|'.join(filters.KEYS)}):(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedSearch:
    """A parsed search; paths, logins and metadata are not resolved yet."""

    text: str = ""
    kind: Kind | None = None
    extensions: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    size: search.SizeRange | None = None
    modified: search.TimeRange | None = None
    created: search.TimeRange | None = None
    metadata: metadata_terms.MetadataSearch | None = None

    def query(
        self,
        *,
        everything: str,
        folders: Sequence[str] = (),
        owners: Sequence[str] = (),
        metadata: search.MetadataFilter | None = None,
    ) -> search.Query:
        """The service's query; `everything` is what matches all items, `folders` and `owners` are ids."""
        given = {
            # The service wants words, unless metadata is asked for.
            "query": self.text or (None if metadata else everything),
            "type": self.kind,
            "file_extensions": list(self.extensions),
            "ancestor_folder_ids": list(folders),
            "owner_user_ids": list(owners),
            "content_types": list(self.parts),
            "size_range": self.size,
            "updated_at_range": self.modified,
            "created_at_range": self.created,
            "mdfilters": [metadata] if metadata else None,
        }
        return search.Query.model_validate({key: value for key, value in given.items() if value})


def parse(text: str, *, now: datetime | None = None, zone: tzinfo | None = None) -> ParsedSearch:
    """Parse a search; days are in `zone` (None: the machine's).

    Raises `UserError` (exit code 2) that says which filter and what it takes.
    """
    # A NUL ends texts elsewhere.
    words, filters = _split(text.replace("\0", " "))
    if not words and not filters:
        raise wrong("There is nothing to search for")
    values: dict[str, list[str]] = {}
    for key, value in filters:
        if not value.strip():
            raise wrong(f"{key}: needs a value")
        values.setdefault(key, []).append(value.strip())
    clock = ranges.Clock(now, zone)
    modified, created = (_single(values, key) for key in ("modified", "created"))
    size = _single(values, "size")
    kind = _single(values, "type")
    metadata = metadata_terms.to_filters(values["metadata"]) if "metadata" in values else None
    others = words or values.keys() - {"metadata", "in"} or len(values.get("in", ())) > 1
    if metadata is not None and metadata.query and others:
        raise wrong("metadata: a condition after `where` goes with one in: and nothing else")
    return ParsedSearch(
        text=" ".join(words),
        kind=None if kind is None else _known("type", KINDS, kind),
        extensions=tuple(word.lstrip(".") for word in _listed(values, "ext") if word.lstrip(".")),
        folders=tuple(values.get("in", ())),
        owners=tuple(values.get("owner", ())),
        parts=tuple(dict.fromkeys(_known("content", PARTS, word) for word in _listed(values, "content"))),
        size=None if size is None else ranges.sizes(size),
        modified=None if modified is None else clock.times("modified", modified),
        created=None if created is None else clock.times("created", created),
        metadata=metadata,
    )


def wrong(sentence: str) -> errors.UserError:
    """Return the error for an invalid search."""
    return errors.UserError(f"{sentence}.", exit_code=2)


def _split(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Split a search into the words for the service and the filters."""
    words: list[str] = []
    filters: list[tuple[str, str]] = []
    before = ""
    for word in _WORD.findall(text):
        matched = _FILTER.fullmatch(word)
        if matched is None:
            if word == "OR" and filters and before == "filter:":
                raise _joined()
            words.append(word)
            before = word
            continue
        if before in ("OR", "NOT"):
            raise _joined()
        filters.append((matched[1], _unquoted(matched[2])))
        before = "filter:"
    return (_bare(words) if filters else words), filters


def _unquoted(value: str) -> str:
    """Return a filter's value without quotes: a doubled quote is literal, a single one groups words."""
    if value == '""':
        return ""
    # No NUL is in a query.
    return value.replace('""', "\0").replace('"', "").replace("\0", '"')


def _joined() -> errors.UserError:
    return wrong("Filters such as type: hold for the whole search and cannot be joined by OR or NOT")


def _bare(words: list[str]) -> list[str]:
    """Return the words without each AND that joined a filter to them."""
    found: list[str] = []
    for word in words:
        if word != "AND" or (found and found[-1] != "AND"):
            found.append(word)
    return found[:-1] if found and found[-1] == "AND" else found


def _single(values: dict[str, list[str]], key: str) -> str | None:
    given = values.get(key)
    if given is None:
        return None
    if len(given) > 1:
        raise wrong(f"{key}: can be given once")
    return given[0]


def _listed(values: dict[str, list[str]], key: str) -> list[str]:
    return [word for value in values.get(key, ()) for part in value.split(",") if (word := part.strip())]


def _known(key: str, known: Mapping[str, T], word: str) -> T:
    if word.lower() not in known:
        raise wrong(f"{key}: takes {', '.join(known)}, not {word!r}")
    return known[word.lower()]
