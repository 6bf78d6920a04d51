"""The freedesktop thumbnail cache: paths, freshness, writing.

Thumbnails are in `~/.cache/thumbnails/SIZE/MD5.png`, named by the MD5 of the file's URI; the PNG contains the
URI and the file's modification time in seconds, by which file managers detect outdated ones.  Defined by
freedesktop's "Thumbnail Managing Standard".

Rule: thumbnails are written atomically, readable only by their owner.
"""

import hashlib
import itertools
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

# Pixels by folder.  Only file managers on HiDPI screens use the last one: it is written only if its folder
# exists.
SIZES = {"normal": 128, "large": 256, "x-large": 512}
_ASKED_FOR = "x-large"

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_URI, _MTIME = b"Thumb::URI", b"Thumb::MTIME"

# Characters that GLib does not escape in a path; the URI must be identical to that of file managers.
_SAFE = "/!$&'()*+,-.:=@_~"

# The texts are at the beginning; our thumbnails have them in the first few hundred bytes.
_HEAD_BYTES = 16 * 1024


def uri(path: Path) -> str:
    """Return the URI of a file as GLib formats it."""
    return "file://" + quote(os.fsencode(path), safe=_SAFE)


def path_of(cache: Path, size: str, of: str) -> Path:
    """Return the path of the thumbnail of this size; `of` is the file's URI."""
    return cache / size / f"{hashlib.md5(of.encode(), usedforsecurity=False).hexdigest()}.png"


def is_fresh(cache: Path, of: str, mtime: int) -> bool:
    """Whether there are thumbnails in all sizes for the current version of the file."""
    wanted = {_URI: of.encode(), _MTIME: str(mtime).encode()}
    return all(wanted.items() <= _texts(path_of(cache, size, of)).items() for size in sizes(cache))


def sizes(cache: Path) -> dict[str, int]:
    """Return the sizes that the file managers of this desktop use."""
    has_largest = (cache / _ASKED_FOR).is_dir()
    return {name: pixels for name, pixels in SIZES.items() if has_largest or name != _ASKED_FOR}


def write(cache: Path, size: str, of: str, mtime: int, picture: bytes) -> None:
    """Write a PNG into the cache, with its texts.  Raises `OSError`, and `ValueError` if it is not a PNG."""
    whole = _labelled(picture, {_URI: of.encode(), _MTIME: str(mtime).encode(), b"Software": b"cmsfs"})
    target = path_of(cache, size, of)
    for folder in (cache, target.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.new")
    try:
        with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(whole)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CachedThumbnail:
    """A cached thumbnail: `path` is its file's path below a folder, `mtime` the file's time then."""

    file: Path
    path: str
    mtime: int


def thumbnails_below(cache: Path, folder: Path) -> Iterator[CachedThumbnail]:
    """Yield all thumbnails of files below a folder, of all sizes, and the records of failed ones."""
    top = f"{os.fspath(folder).rstrip('/')}/"
    for file in itertools.chain(cache.glob("*/*.png"), cache.glob("fail/*/*.png")):
        texts = _texts(file)
        address = texts.get(_URI, b"").decode("ascii", "replace")
        path = os.fsdecode(unquote_to_bytes(address.removeprefix("file://")))
        if address.startswith("file:///") and path.startswith(top):
            time = texts.get(_MTIME, b"")
            yield CachedThumbnail(file, path.removeprefix(top), int(time) if time.isdigit() else -1)


def _labelled(picture: bytes, texts: dict[bytes, bytes]) -> bytes:
    """Return a PNG with these texts after its header."""
    head = len(_SIGNATURE) + 8 + 13 + 4
    if not picture.startswith(_SIGNATURE) or picture[12:16] != b"IHDR" or len(picture) < head:
        raise ValueError("not a PNG")
    chunks = b"".join(_chunk(b"tEXt", key + b"\0" + text) for key, text in texts.items())
    return picture[:head] + chunks + picture[head:]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _texts(path: Path) -> dict[bytes, bytes]:
    """Return the texts before the image data of a PNG; none if the file is not a PNG."""
    try:
        with path.open("rb") as file:
            data = file.read(_HEAD_BYTES)
    except OSError:
        return {}
    found: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while data.startswith(_SIGNATURE) and at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind in (b"IDAT", b"IEND"):
            break
        if kind == b"tEXt":
            key, _, text = data[at + 8 : at + 8 + length].partition(b"\0")
            found[key] = text
        at += 12 + length
    return found
