"""Previews of files: the beginning of a text, or an image.

Rule: reads a limited number of bytes, and processes them in linear time, in a thread.
"""

import os
from dataclasses import dataclass

from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.runtime import threads
from cmsfs.vfs.tree.filesystem import Filesystem
from daemon.ui import line_diff

MOST_TEXT = 128 * 1024
MOST_PICTURE = 8 * 1024 * 1024

# Image types by signature.  SVG is not shown, because it may contain scripts.
_PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}

_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview: `text`, or `picture` (its media type), or neither."""

    text: str = ""
    is_whole: bool = True
    picture: str = ""


async def beginning(fs: Filesystem, node: Node, most: int) -> bytes:
    """Return the first `most` bytes of a file.  Raises `OSError`."""
    opened = await fs.open(node.ino, os.O_RDONLY)
    try:
        return bytes(await fs.read(opened.fh, 0, min(node.size, most)))
    finally:
        await fs.release(opened.fh)


async def preview(fs: Filesystem, node: Node) -> Preview:
    """Return the preview of a file.  Raises `OSError` if it cannot be read."""
    if node.kind is not NodeKind.FILE or not node.size:
        return Preview()
    data = await beginning(fs, node, MOST_TEXT)
    if kind := picture_type(data):
        return Preview(picture=kind if node.size <= MOST_PICTURE else "")
    text = await threads.run_sync(text_of, data, node.size > MOST_TEXT)
    return Preview() if text is None else Preview(text, node.size <= MOST_TEXT)


async def difference(old: Preview, new: Preview) -> list[line_diff.DiffLine]:
    """Return the line diff of two texts."""
    return await threads.run_sync(line_diff.compare, old.text, new.text)


def picture_type(data: bytes) -> str:
    """Return the media type of an image that browsers display; "" for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _PICTURES.items() if data.startswith(mark)), "")


def text_of(data: bytes, is_cut: bool) -> str | None:
    """Decode the bytes as text; None if they are not text."""
    encoding = next((one for mark, one in _MARKS.items() if data.startswith(mark)), "utf-8")
    if is_cut:
        # The end may be in the middle of a character.
        data = data[: data.rfind(b"\n") + 1] or data
    try:
        text = data.decode(encoding)
    except ValueError:
        return None
    return None if "\0" in text else text
