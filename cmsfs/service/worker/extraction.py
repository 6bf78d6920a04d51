"""Extracts text from documents, for search and for the text representation.

Runs only in the worker (see worker.py): a library that parses untrusted uploads may exhaust the processor or
the memory, or crash the process.  The type of a file is detected from its first bytes, not from its name.
Formats: text in UTF-8, UTF-16, UTF-32 and, as a fallback, Latin-1; HTML; RTF; PDF; Word, Excel and PowerPoint
since 2007; OpenDocument.

Only the first check of new content (`first_look`) runs in the service's own process, in a thread.  Its time
is linear in the number of bytes, whatever they are: none of its regular expressions can backtrack.

Rule: a file that is not a document has no text; a document that cannot be read raises `Unreadable`.
"""

import codecs
import re
import time
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# About a hundred pages.  The text of every file is stored a second time for search.
MAX_TEXT = 250_000

# Time limit for all pages together; the text found until then is kept.
SOFT_SECONDS = 10.0

# Limits on the unpacked size of a document's XML, and of all its parts.  A parsed XML tree is many times its
# size; a presentation may contain a film.
MAX_XML = 64 * 1024 * 1024
MAX_UNPACKED = 512 * 1024 * 1024
MAX_PARTS = 20_000

# Only this much of a text or markup file is read.
MAX_MARKUP = 4 * 1024 * 1024

_HEAD = 4096
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose BOM is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SPACE = re.compile(rb"\s*+")
_HTML = re.compile(rb"<(?:!doctype\s++html|html)\b", re.I)
# An RTF font's number and character set with a few control words between; the third group is its name, which
# is not used.
_FONT = re.compile(r"\\f(\d{1,5})(?:[ ]?\\(?!fcharset)[a-z]{1,20}\d{0,6}){0,8}+[ ]?\\fcharset(\d{1,5})()")
_NEVER = re.compile(r"(?!)()()")
# Bytes that do not occur in text: control characters except tab, line ends, form feed and escape.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"


# The package of the drive does not include the document libraries: a trial of the service does without them.
MISSING_LIBRARY = "what reads it is not installed (the package cmsfs-server; with pip the extra `server`)"


class Unreadable(Exception):
    """A document whose text cannot be extracted; the message is a short reason."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The result of the first check: text found at once, and whether the worker should look for more."""

    text: str
    promising: bool


def first_look(head: bytes, size: int) -> FirstLook:
    """Check content by its first bytes; blocking, run it in a thread."""
    return FirstLook(plain_text(head, size), may_have_more_text(head, size))


def may_have_more_text(head: bytes, size: int) -> bool:
    """Return whether a file that begins like this may have text that `plain_text` does not find in `head`."""
    if _is_marked_up(head):
        return True
    text = _decoded(head, final=size <= len(head))
    return text != "" and (size > len(head) or plain_text(head, size) != text)


def plain_text(head: bytes, size: int) -> str:
    """Return the text at the beginning of a file if it is plain UTF-8, the usual case."""
    if b"\0" in head or _is_marked_up(head):
        return ""
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=size <= len(head))
    except UnicodeDecodeError:
        return ""


def _is_marked_up(head: bytes) -> bool:
    return head.startswith((b"{\\rtf", b"PK\x03\x04")) or b"%PDF-" in head[:1024] or _is_html(head)


def _is_html(head: bytes) -> bool:
    """Return whether this is HTML, perhaps after an XML declaration and comments."""
    at = _after_space(head, 0)
    if head.startswith(b"<?xml", at):
        if (end := head.find(b">", at)) < 0:
            return False
        at = _after_space(head, end + 1)
    while head.startswith(b"<!--", at):
        if (end := head.find(b"-->", at + 4)) < 0:
            return False
        at = _after_space(head, end + 3)
    return _HTML.match(head, at) is not None


def _after_space(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    assert found is not None
    return found.end()


def extract_text(path: Path) -> str:
    """Extract a file's text, at most MAX_TEXT characters.  Raises `Unreadable`, and `OSError`."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    try:
        return _cut(_pieces(path, head))
    except (Unreadable, OSError, MemoryError):
        raise
    except ImportError:
        raise Unreadable(MISSING_LIBRARY) from None
    except Exception as error:
        # Each library raises its own exceptions for damaged files, some of them many.
        raise Unreadable(f"{type(error).__name__}: {error}"[:200]) from error


def _pieces(path: Path, head: bytes) -> Iterable[str]:
    if b"%PDF-" in head[:1024]:
        return _pdf(path)
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    with path.open("rb") as file:
        data = file.read(MAX_MARKUP)
    if head.startswith(b"{\\rtf"):
        return _rtf(data)
    if _is_html(head):
        return _html(data)
    return [_decoded(data, final=len(data) < MAX_MARKUP)]


def _cut(pieces: Iterable[str]) -> str:
    """Join the pieces, each a line, up to the limits of size and time."""
    found: list[str] = []
    size = 0
    ends = time.monotonic() + SOFT_SECONDS
    for piece in pieces:
        found.append(piece[: MAX_TEXT - size])
        size += len(found[-1]) + 1
        if size >= MAX_TEXT or time.monotonic() > ends:
            break
    text = "\n".join(found).replace("\0", " ")
    # Lone surrogates, which some documents contain, are no characters.
    return text.encode("utf-8", "replace").decode("utf-8").strip()


def _decoded(data: bytes, *, final: bool) -> str:
    """Decode bytes as text; empty if they are not text."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return codecs.getincrementaldecoder(encoding)("replace").decode(data)
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if b"\0" in data or controls * 50 > len(data):
        return ""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=final)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _html(data: bytes) -> Iterable[str]:
    from lxml import etree, html

    marked = any(data.startswith(mark) for mark, _ in _BOMS)
    source: Any = _decoded(data, final=False).encode() if marked else data
    parser = html.HTMLParser(encoding="utf-8" if marked else None, no_network=True)
    root = etree.fromstring(source, parser)
    if root is None:
        return []
    found = root.xpath("//text()[not(ancestor::script or ancestor::style or ancestor::template)]")
    return [line for one in found if (line := " ".join(str(one).split()))]


def _rtf(data: bytes) -> Iterable[str]:
    from striprtf import striprtf

    # The library's own two expressions rescan the whole text from every possible start.
    striprtf.HYPERLINKS = _NEVER
    striprtf.FONTTABLE = _FONT
    found: str = striprtf.rtf_to_text(data.decode("latin-1"), errors="ignore")  # type: ignore[no-untyped-call]
    return [found]


def _pdf(path: Path) -> Iterator[str]:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    try:
        for number in range(len(document)):
            page = document[number]
            try:
                text = page.get_textpage()
                yield text.get_text_range(count=min(text.count_chars(), MAX_TEXT)).replace("\r\n", "\n")
                text.close()
            finally:
                page.close()
    finally:
        document.close()


def _zip(path: Path) -> Iterable[str]:
    """Extract the text of a document in ZIP format; not every ZIP file is one."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        names = {part.filename for part in parts}
        kind = archive.read("mimetype")[:100].decode("ascii", "replace") if "mimetype" in names else ""
    readers = {
        "word/document.xml": _docx,
        "ppt/presentation.xml": _pptx,
        "xl/workbook.xml": _sheets,
        "xl/workbook.bin": _sheets,
    }
    if kind.startswith("application/vnd.oasis.opendocument."):
        reader = _sheets if "spreadsheet" in kind else _odf
    elif (found := next((readers[name] for name in readers if name in names), None)) is not None:
        reader = found
    else:
        return []
    _check_size(parts)
    return reader(path)


def _check_size(parts: list[zipfile.ZipInfo]) -> None:
    # No more is read of a part than its declared size.
    xml = sum(part.file_size for part in parts if part.filename.endswith((".xml", ".rels", ".bin")))
    if len(parts) > MAX_PARTS or xml > MAX_XML or sum(part.file_size for part in parts) > MAX_UNPACKED:
        raise Unreadable("it unpacks to more than any document does")


def _docx(path: Path) -> Iterator[str]:
    import docx
    from docx.oxml import ns, parser

    main = docx.Document(str(path)).part
    # Text outside the body is in separate parts; the library has objects for only some of them.
    beside = ("/header", "/footer", "/footnotes", "/endnotes", "/comments")
    yield from _paragraphs(main.element, ns)
    for relation in main.rels.values():
        if not relation.is_external and relation.reltype.endswith(beside):
            yield from _paragraphs(parser.parse_xml(relation.target_part.blob), ns)


def _paragraphs(element: Any, ns: Any) -> Iterator[str]:
    """Yield each paragraph with text, including those in tables and text boxes."""
    text, tab = ns.qn("w:t"), (ns.qn("w:tab"), ns.qn("w:br"))
    for paragraph in element.iter(ns.qn("w:p")):
        runs = paragraph.iter(text, *tab)
        if line := "".join(" " if one.tag in tab else one.text or "" for one in runs).strip():
            yield line


def _sheets(path: Path) -> Iterator[str]:
    import python_calamine

    with python_calamine.CalamineWorkbook.from_path(str(path)) as book:
        for name in book.sheet_names:
            yield name
            for row in book.get_sheet_by_name(name).iter_rows():
                if line := "\t".join(str(cell) for cell in row if cell != ""):
                    yield line


def _pptx(path: Path) -> Iterator[str]:
    import pptx

    for slide in pptx.Presentation(str(path)).slides:
        yield from _shapes(slide.shapes)
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
            yield frame.text


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if shape.has_text_frame and shape.text_frame.text:
            yield shape.text_frame.text
        if shape.has_table:
            for row in shape.table.rows:
                yield "\t".join(cell.text for cell in row.cells)
        yield from _shapes(getattr(shape, "shapes", ()))


def _odf(path: Path) -> Iterable[str]:
    import odfdo

    lines = odfdo.Document(path).body.text_recursive.splitlines()
    return (line for line in lines if line.strip())
