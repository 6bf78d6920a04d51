"""What words are found in a file, and what of one that is damaged or hostile."""

import codecs
import io
import zipfile

import pytest
from PIL import Image

from cmsfs.service.worker import extraction, imaging
from tests.support import sample_documents

RTF = rb"{\rtf1\ansi{\fonttbl{\f0 Font;}}\f0 heron {\b bold} caf\'e9\par}"
HTML = b"<!DOCTYPE html><html><head><style>p{}</style><title>Egret</title><p>One<script>no()</script>"


def words(tmp_path, data: bytes) -> str:
    path = tmp_path / "content"
    path.write_bytes(data)
    return extraction.extract_text(path)


@pytest.mark.parametrize(
    ("head", "size", "text", "promising"),
    [
        (b"plain", 5, "plain", False),
        ("größe".encode(), 7, "größe", False),
        (codecs.BOM_UTF8 + b"marked", 9, "marked", False),
        (b"\xff\xfe\x00", 3, "", False),
        (b"text\0more", 9, "", False),
        (b"", 0, "", False),
        # The beginning of a text is found at once, the rest later; the cut may go through a character.
        (b"a" * 9999 + "ö".encode()[:1], 20_000, "a" * 9999, True),
        ("größe".encode("latin-1"), 5, "", True),
        (codecs.BOM_UTF16_LE + "wide".encode("utf-16-le"), 10, "", True),
        (HTML, len(HTML), "", True),
        (RTF, len(RTF), "", True),
        (b"PK\x03\x04...", 500, "", True),
        (b"%PDF-1.7 ...\xe2\xe3", 500, "", True),
        (b"\x89PNG\r\n\x1a\n\0\0", 500, "", False),
        (bytes(range(1, 256)) * 10, 2550, "", False),
    ],
)
def test_inline_and_worker_extraction(head, size, text, promising):
    assert extraction.plain_text(head, size) == text
    assert extraction.may_have_more_text(head, size) == promising


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("größe".encode(), "größe"),
        ("größe".encode("latin-1"), "größe"),
        (codecs.BOM_UTF8 + "größe".encode(), "größe"),
        ("größe".encode("utf-16"), "größe"),
        (codecs.BOM_UTF16_BE + "größe".encode("utf-16-be"), "größe"),
        ("größe".encode("utf-32"), "größe"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", ""),
        (b"", ""),
        (HTML, "Egret\nOne"),
        (RTF, "heron bold café"),
    ],
)
def test_texts_in_every_encoding_and_with_markup(tmp_path, data, text):
    assert words(tmp_path, data) == text


def test_office_documents(tmp_path):
    assert words(tmp_path, sample_documents.docx("Red fox", "runs", cell="in a table")).split("\n") == [
        *("Red fox", "runs", "in a table"),
    ]
    found = words(tmp_path, sample_documents.letter("Letterhead", "Dear all", "too short"))
    assert set(found.split("\n")) == {"Letterhead", "Dear all", "too short"}
    assert words(tmp_path, sample_documents.xlsx(tmp_path, ["lynx", 42.5], ["", "ibex"], sheet="Cats")) == (
        "Cats\nlynx\t42.5\nibex"
    )
    found = words(tmp_path, sample_documents.slides("Kite", "hovers", "said aloud", "in a cell"))
    assert found.split("\n") == ["Kite", "hovers", "in a cell", "said aloud"]
    assert words(tmp_path, sample_documents.odt("Heading", "aardvark")) == "Heading\naardvark"
    assert words(tmp_path, sample_documents.ods("oryx")).endswith("oryx")
    assert words(tmp_path, sample_documents.odp("quokka")) == "quokka"


def test_a_pdf(tmp_path):
    assert words(tmp_path, sample_documents.pdf("first page", "second page")) == "first page\nsecond page"
    # Some programs put something of their own before it.
    assert words(tmp_path, b"junk\n" + sample_documents.pdf("late")) == "late"


def test_plain_zip_has_no_text(tmp_path):
    assert words(tmp_path, sample_documents.zipped({"a.txt": "hello"})) == ""


def test_no_more_words_than_are_stored(tmp_path):
    assert len(words(tmp_path, b"word " * 100_000)) <= extraction.MAX_TEXT
    many = sample_documents.xlsx(tmp_path, *(["x" * 1000] for _ in range(300)))
    assert len(words(tmp_path, many)) <= extraction.MAX_TEXT + 1


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7 and no more",
        sample_documents.pdf("cut")[:200],
        b"PK\x03\x04 and no more",
        sample_documents.docx("cut")[:-30],
        sample_documents.zipped({"word/document.xml": "no XML"}),
        sample_documents.zipped({"xl/workbook.xml": "no XML"}),
        sample_documents.zipped({"ppt/presentation.xml": "no XML"}),
        sample_documents.zipped({"mimetype": "application/vnd.oasis.opendocument.text"}),
        sample_documents.zipped(
            {"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<a"}
        ),
    ],
)
def test_a_damaged_document_is_unreadable(tmp_path, data):
    with pytest.raises(extraction.Unreadable):
        words(tmp_path, data)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    bomb = io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w") as part,
    ):
        for _ in range(extraction.MAX_XML // 2**20 + 1):
            part.write(bytes(2**20))
    assert len(bomb.getvalue()) < 2**20
    with pytest.raises(extraction.Unreadable, match="unpacks to more"):
        words(tmp_path, bomb.getvalue())


def test_a_document_reads_no_file_of_ours(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the treasure")
    dtd = f'<!DOCTYPE x [<!ENTITY loot SYSTEM "file://{secret}">]>'
    try:
        found = words(tmp_path, sample_documents.docx("&loot;", dtd=dtd))
    except extraction.Unreadable:
        found = ""
    assert "treasure" not in found


def draw(tmp_path, data: bytes, extension: str = "jpg", size: int = 32) -> Image.Image:
    path = tmp_path / "picture"
    path.write_bytes(data)
    return Image.open(io.BytesIO(imaging.draw(path, extension, size, size)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
@pytest.mark.parametrize("extension", ["jpg", "png"])
def test_a_small_picture_keeps_its_proportions(tmp_path, kind, extension):
    made = draw(tmp_path, sample_documents.picture(kind), extension)
    assert (made.size, made.format) == ((32, 16), {"jpg": "JPEG", "png": "PNG"}[extension])
    red = made.convert("RGB").getpixel((5, 5))
    assert isinstance(red, tuple)
    assert red[0] > 240 and red[1] < 20 and red[2] < 20


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_pictures_of_every_mode(tmp_path, mode):
    kind = "TIFF" if mode == "CMYK" else "PNG"
    made = io.BytesIO()
    Image.new(mode, (100, 100)).save(made, kind)
    assert draw(tmp_path, made.getvalue(), "jpg").mode == "RGB"
    assert draw(tmp_path, made.getvalue(), "png").size == (32, 32)


def test_small_image_is_rotated_not_enlarged(tmp_path):
    assert draw(tmp_path, sample_documents.picture(size=(10, 4))).size == (10, 4)
    turned = Image.new("RGB", (40, 20))
    exif = turned.getexif()
    exif[0x0112] = 6
    made = io.BytesIO()
    turned.save(made, "JPEG", exif=exif)
    assert draw(tmp_path, made.getvalue()).size == (16, 32)


def test_what_is_transparent_is_white_in_a_jpeg(tmp_path):
    made = io.BytesIO()
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(made, "PNG")
    assert draw(tmp_path, made.getvalue()).getpixel((5, 5)) == (255, 255, 255)


def test_the_first_page_of_a_pdf(tmp_path):
    assert draw(tmp_path, sample_documents.pdf("one", "two"), size=320).size == (320, 160)


def test_huge_picture_is_refused_unopened(tmp_path):
    bomb = sample_documents.picture(size=(16_000, 16_000), mode="1")
    assert len(bomb) < 100_000
    with pytest.raises(extraction.Unreadable, match="pixels"):
        draw(tmp_path, bomb)
    some = sample_documents.picture(size=(9_000, 9_000), mode="1")
    with pytest.raises(extraction.Unreadable, match="pixels"):
        draw(tmp_path, some)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        sample_documents.picture()[:60],
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n",
        b"%PDF-1.4",
    ],
)
def test_what_is_no_picture_is_unreadable(tmp_path, data):
    with pytest.raises(extraction.Unreadable):
        draw(tmp_path, data)
