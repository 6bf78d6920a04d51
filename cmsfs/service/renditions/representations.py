"""Representations (extracted text, thumbnails): which a file has, requesting them, serving them.

`GET /files/:id?fields=representations` lists what there may be of a file, by its name's ending.  With the
header `X-Rep-Hints` (`[jpg?dimensions=320x320][extracted_text]`; alternatives between commas) it lists what
was hinted at, and the worker begins to make it: `pending` becomes `success`.  Without, what nobody asked for
is `none`, and a look at its `info.url` begins it.  What turns out to be impossible is not offered any more.

Rule: whoever may look into a file may have these, of any of its versions; who may see its name alone not.
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

# What a list names; /files/:id/thumbnail has sizes besides.
_LISTED = [name for name in PICTURES if not name.startswith("png_thumb")]

# A client that asks for more at once is not about to show it.
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
    """Put the representations on files that are about to be answered, if they were asked for."""
    files = [one for one in shaped if one["type"] == "file"]
    if not files or "representations" not in (call.fields or ()):
        return
    found = call.store.read(_FILES, json.dumps([int(one["id"]) for one in files]))
    rows = {str(row["id"]): row for row in found}
    hints = _hints(call.request.headers.get("x-rep-hints"))
    chosen = {wire_id: _choose(offered(row), hints) for wire_id, row in rows.items()}
    if hints:
        await _ask(call.store, [(rows[one]["sha1"], name) for one in rows for name in chosen[one]])
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


def get_offered(read: store.Read, file: int, name: str) -> None:
    """404 unless there may be a representation of this name of a file."""
    found = read(_FILES, json.dumps([file]))
    if not found or name not in offered(found[0]):
        raise problems.not_found("representation", name)


def offered(row: Row) -> list[str]:
    """What may be made of a file; a row of `_FILES`."""
    names = []
    if row["extension"] in PICTURE_TYPES:
        names = [name for name in _LISTED if name != "jpg_2048x2048" or row["extension"] in _JPEG]
    if row["has_words"] or row["extension"] in _DOCUMENT_TYPES:
        names.append(TEXT)
    return names


def _hints(header: str | None) -> list[list[tuple[str, str | None]]]:
    """The hints of a header: for each, the kinds and sizes that will do."""
    found = []
    for group in _HINT.findall(header or "")[:MAX_HINTS]:
        choice = []
        for one in group.split(",")[:MAX_HINTS]:
            kind, _, query = one.strip().partition("?")
            choice.append((kind.strip().lower(), dict(parse_qsl(query)).get("dimensions")))
        found.append(choice)
    return found


def _choose(offered: list[str], hints: list[list[tuple[str, str | None]]]) -> list[str]:
    """What of the offered was hinted at: of each hint's alternatives the first that there is."""
    if not hints:
        return offered
    found: dict[str, None] = {}
    for choice in hints:
        for kind, dimensions in choice:
            names = [name for name in offered if _is_meant(name, kind, dimensions)]
            if names:
                found |= dict.fromkeys(names)
                break
    return list(found)


def _is_meant(name: str, kind: str, dimensions: str | None) -> bool:
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


async def _ask(opened: store.Store, wanted: list[tuple[str, str]]) -> None:
    """Have the worker make what is not there yet."""
    states = derived_files.states(opened.read, {sha1 for sha1, _ in wanted})
    missing = [one for one in wanted if one not in states]
    if missing:
        now = opened.now()
        await opened.write(lambda conn: derived_files.request(conn, missing, now=now))


async def ensure(opened: store.Store, sha1: str, name: str) -> DerivedState:
    """How it stands with a rendition, which is asked for if it was not.

    404 `preview_cannot_be_generated` if it is impossible.
    """
    await _ask(opened, [(sha1, name)])
    state = derived_files.states(opened.read, [sha1])[sha1, name]
    if state is DerivedState.IMPOSSIBLE:
        raise problems.Refused(404, "preview_cannot_be_generated", "There is no such preview of this file.")
    return state


async def read(opened: store.Store, sha1: str, name: str) -> bytes | None:
    """A rendition that is there; None if it is being made."""
    if await ensure(opened, sha1, name) is DerivedState.ASKED:
        return None
    try:
        return await threads.run_sync(opened.renditions.read, sha1, name)
    except FileNotFoundError:
        # Whoever cleans a folder of what can be made again is right; so it is made again.
        now = opened.now()
        await opened.write(lambda conn: derived_files.record(conn, sha1, name, DerivedState.ASKED, now=now))
        return None
