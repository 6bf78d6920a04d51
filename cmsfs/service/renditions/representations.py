"""Representations (extracted text, thumbnails): which a file has, requesting them, serving them.

`GET /files/:id?fields=representations` lists the possible representations of a file, by its extension.  With
the header `X-Rep-Hints` (`[jpg?dimensions=320x320][extracted_text]`; alternatives separated by commas) it
lists the hinted ones, and the worker starts making them: `pending` becomes `success`.  Without the header,
those not requested yet are `none`, and a request to their `info.url` starts them.  A representation that
turns out to be impossible is no longer offered.

Rule: whoever may preview a file may have these, of any of its versions; seeing just its name is not enough.
"""

import json
import re
from collections.abc import Sequence
from sqlite3 import Row
from typing import Any
from urllib.parse import parse_qsl

from cmsfs.runtime import threads
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.storage import derived_files, store
from cmsfs.service.storage.derived_files import PICTURES, TEXT, DerivedState

PICTURE_TYPES = frozenset(
    ("bmp", "gif", "jfif", "jpe", "jpeg", "jpg", "pbm", "pdf", "pgm", "png", "ppm", "tif", "tiff", "webp")
)
_JPEG = frozenset(("jfif", "jpe", "jpeg", "jpg"))
_DOCUMENT_TYPES = frozenset(
    (
        *("docm", "docx", "dotx", "htm", "html", "odp", "ods", "odt", "otp", "ots", "ott", "pdf", "potx"),
        *("ppsx", "pptm", "pptx", "rtf", "xhtml", "xlsb", "xlsm", "xlsx"),
    )
)

# The listed ones; /files/:id/thumbnail has further sizes.
_LISTED = [name for name in PICTURES if not name.startswith("png_thumb")]

# Limit on hints; no client is about to display more than this.
MAX_HINTS = 32

RETRY_SECONDS = 1

_FILES = """
  SELECT item.id, version, sha1, extension, file_content != '' AS has_words
    FROM item JOIN document ON document.id = item.id
    WHERE item.id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))
"""
_STATES = {DerivedState.ASKED: "pending", DerivedState.MADE: "success"}
_HINT = re.compile(r"\[([^\[\]]*)\]")
MEDIA_TYPES = {"jpg": "image/jpeg", "png": "image/png"}


async def add(call: calls.Call, shaped: Sequence[dict[str, Any]]) -> None:
    """Add the representations to files in a response, if they were requested."""
    files = [one for one in shaped if one["type"] == "file"]
    if not files or "representations" not in (call.fields or ()):
        return
    found = call.store.read(_FILES, json.dumps([int(one["id"]) for one in files]))
    rows = {str(row["id"]): row for row in found}
    hints = _hints(call.request.headers.get("x-rep-hints"))
    chosen = {wire_id: _choose(possible_names(row), hints) for wire_id, row in rows.items()}
    if hints:
        await _request_missing(
            call.store, [(rows[one]["sha1"], name) for one in rows for name in chosen[one]]
        )
    states = derived_files.states(call.store.read, {row["sha1"] for row in found})
    for file in files:
        row = rows[file["id"]]
        there = [(name, states.get((row["sha1"], name))) for name in chosen[file["id"]]]
        file["representations"] = {
            "entries": [
                entry(call, row["id"], row["version"], name, state)
                for name, state in there
                if state is not DerivedState.IMPOSSIBLE
            ]
        }


def check_offered(read: store.Read, file: int, name: str) -> None:
    """Raise 404 unless a file may have a representation of this name."""
    found = read(_FILES, json.dumps([file]))
    if not found or name not in possible_names(found[0]):
        raise problems.not_found("representation", name)


def possible_names(row: Row) -> list[str]:
    """Return the possible representations of a file; a row of `_FILES`."""
    names = []
    if row["extension"] in PICTURE_TYPES:
        names = [name for name in _LISTED if name != "jpg_2048x2048" or row["extension"] in _JPEG]
    if row["has_words"] or row["extension"] in _DOCUMENT_TYPES:
        names.append(TEXT)
    return names


def _hints(header: str | None) -> list[list[tuple[str, str | None]]]:
    """Parse the hints of a header: for each, the acceptable kinds and sizes."""
    found = []
    for group in _HINT.findall(header or "")[:MAX_HINTS]:
        choice = []
        for one in group.split(",")[:MAX_HINTS]:
            kind, _, query = one.strip().partition("?")
            choice.append((kind.strip().lower(), dict(parse_qsl(query)).get("dimensions")))
        found.append(choice)
    return found


def _choose(offered: list[str], hints: list[list[tuple[str, str | None]]]) -> list[str]:
    """Return the hinted representations: for each hint the first alternative that is offered."""
    if not hints:
        return offered
    found: dict[str, None] = {}
    for choice in hints:
        for kind, dimensions in choice:
            names = [name for name in offered if _matches(name, kind, dimensions)]
            if names:
                found |= dict.fromkeys(names)
                break
    return list(found)


def _matches(name: str, kind: str, dimensions: str | None) -> bool:
    if name == TEXT:
        return kind in (TEXT, "text")
    return PICTURES[name][0] == kind and dimensions in (None, f"{PICTURES[name][1]}x{PICTURES[name][1]}")


def entry(call: calls.Call, file: int, version: int, name: str, state: DerivedState | None) -> dict[str, Any]:
    url = call.request.url
    place = f"{url.scheme}://{url.netloc}/2.0/internal_files/{file}/versions/{version}/representations/{name}"
    properties: dict[str, str] = {}
    kind = name
    if name != TEXT:
        kind, size = PICTURES[name]
        thumb = "true" if "_thumb_" in name else "false"
        properties = {"dimensions": f"{size}x{size}", "paged": "false", "thumb": thumb}
    return {
        "representation": kind,
        "properties": properties,
        "info": {"url": place},
        "content": {"url_template": f"{place}/content/{{+asset_path}}"},
        "status": {"state": "none" if state is None else _STATES[state]},
    }


async def _request_missing(opened: store.Store, wanted: list[tuple[str, str]]) -> None:
    """Queue those that were not requested yet."""
    states = derived_files.states(opened.read, {sha1 for sha1, _ in wanted})
    missing = [one for one in wanted if one not in states]
    if missing:
        now = opened.now()
        await opened.write(lambda conn: derived_files.request(conn, missing, now=now))


async def request_state(opened: store.Store, sha1: str, name: str) -> DerivedState:
    """Return the state of a rendition, and request it if it was not requested yet.

    404 `preview_cannot_be_generated` if it is impossible.
    """
    await _request_missing(opened, [(sha1, name)])
    state = derived_files.states(opened.read, [sha1])[sha1, name]
    if state is DerivedState.IMPOSSIBLE:
        raise problems.Refused(404, "preview_cannot_be_generated", "There is no such preview of this file.")
    return state


async def read(opened: store.Store, sha1: str, name: str) -> bytes | None:
    """Return a rendition's bytes; None while it is being made."""
    if await request_state(opened, sha1, name) is DerivedState.ASKED:
        return None
    try:
        return await threads.run_sync(opened.renditions.read, sha1, name)
    except FileNotFoundError:
        # Deleting these files is legitimate, since they can be made again; so it is requested again.
        now = opened.now()
        await opened.write(lambda conn: derived_files.record(conn, sha1, name, DerivedState.ASKED, now=now))
        return None
