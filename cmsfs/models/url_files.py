"""Web links as files: formats and parses `.url` files.

The format is the desktop's InternetShortcut, an INI file that file managers and browsers of all systems
open: `URL=` is the address, `Comment=` the description, with the escapes of desktop entries.

Rule: values from the service or from a program never add a line, and only web addresses (http, https) are
valid.
"""

import json
import re
from typing import NamedTuple
from urllib.parse import quote

from cmsfs.models.content import web_links

# A shortcut has a few lines; the longest address that the service accepts fits twice.
MAX_BYTES = 16 * 1024

_HEADER = "[internetshortcut]"
_BYTE_ORDER_MARK = "\ufeff"

# Characters that a line cannot contain; spaces at the ends of a value, which readers strip, are escaped too.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MEANINGS = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t", "s": " "}
_ESCAPED = re.compile(r"\\([\\nrts])")


class Shortcut(NamedTuple):
    """The address and the description of a web link ("": none)."""

    url: str
    description: str = ""


class ParsedShortcut(NamedTuple):
    """The shortcut in a file, and whether the file contains nothing else (`is_all`)."""

    shortcut: Shortcut
    is_all: bool


def text(url: str, description: str = "") -> bytes:
    """Return the contents of the file for a link to `url`, as the drive writes it."""
    lines = ["[InternetShortcut]", f"URL={_address(url)}"]
    if description:
        lines.append(f"Comment={_escaped(description)}")
    return ("\n".join(lines) + "\n").encode(errors="replace")


def parse(data: bytes) -> ParsedShortcut | None:
    """Parse a file's contents; return its shortcut to a web address, None if there is none."""
    if len(data) > MAX_BYTES:
        return None
    try:
        lines = data.decode().removeprefix(_BYTE_ORDER_MARK).split("\n")
    except UnicodeDecodeError:
        return None
    values: dict[str, str] = {}
    section = ""
    is_all = True
    for line in map(_bare, lines):
        if not line:
            continue
        if line.startswith("["):
            is_all &= not section
            section = line.casefold()
            continue
        key, equals, value = _parts(line)
        if not equals or section != _HEADER or key not in ("url", "comment") or key in values:
            is_all = False
        else:
            values[key] = value.strip(" \t")
    url = values.get("url", "")
    if not web_links.is_address(url):
        return None
    description = _ESCAPED.sub(lambda found: _MEANINGS[found[1]], values.get("comment", ""))
    if len(description) > web_links.MAX_DESCRIPTION:
        description, is_all = "", False
    return ParsedShortcut(Shortcut(url, description), is_all)


def says(data: bytes, shortcut: Shortcut) -> bool:
    """Whether the file's contents are this shortcut."""
    found = parse(data)
    return found is not None and found.shortcut == shortcut


def edited(data: bytes, *, url: str | None = None, description: str | None = None) -> bytes:
    """Return a web link file's contents with a new address or description; None leaves it unchanged.

    Everything else, including the line endings, is preserved.
    """
    if parse(data) is None:
        return text(url or "", description or "")
    new = {} if url is None else {"url": _address(url)}
    if description is not None:
        new["comment"] = _escaped(description)
    whole = data.decode()
    mark = _BYTE_ORDER_MARK if whole.startswith(_BYTE_ORDER_MARK) else ""
    lines: list[str] = []
    section, behind = "", 0
    for line in whole.removeprefix(mark).split("\n"):
        bare, value = _bare(line), None
        if bare.startswith("["):
            section = bare.casefold()
        elif section == _HEADER:
            key, equals, _ = _parts(bare)
            value = new.pop(key, None) if equals else None
            if key == "url" and equals and not behind:
                behind = len(lines) + 1
            if key == "comment" and equals and description == "":
                continue  # remove all: otherwise a second one would become the description
        kept = line if value is None else line[: line.index("=") + 1] + value + _return(line)
        lines.append(kept)
    if comment := new.get("comment"):
        _insert(lines, behind, f"Comment={comment}")
    return (mark + "\n".join(lines)).encode(errors="replace")


def _insert(lines: list[str], at: int, line: str) -> None:
    end = _return(*lines)
    if at == len(lines):  # after a last line without a line ending
        lines[at - 1] = lines[at - 1].removesuffix("\r") + end
        lines.append(line)
    else:
        lines.insert(at, line + end)


def _return(*lines: str) -> str:
    return "\r" if any(line.endswith("\r") for line in lines) else ""


def _bare(line: str) -> str:
    return line.removesuffix("\r").strip(" \t")


def _parts(line: str) -> tuple[str, str, str]:
    """Split a line at `=`; return the casefolded key, `=` or "", and the value."""
    key, equals, value = line.partition("=")
    return key.strip(" \t").casefold(), equals, value


def _address(url: str) -> str:
    # A service may send anything: characters that are invalid in an address are percent-encoded.
    return "".join(one if one.isprintable() and one != " " else quote(one, errors="replace") for one in url)


def _escaped(description: str) -> str:
    line = "".join(_ESCAPES.get(one, one) for one in description)
    start, end = len(line) - len(line.lstrip(" ")), len(line.rstrip(" "))
    return "\\s" * start + line[start:end] + "\\s" * (len(line) - max(start, end))


def of_item(item_json: str | None) -> Shortcut:
    """Return the shortcut of a web link, from the service's JSON of the item."""
    item = json.loads(item_json) if item_json else {}
    return Shortcut(str(item.get("url") or ""), str(item.get("description") or ""))
