"""Documents to be read, made by the libraries that are made for that, or by hand where those are not."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import docx as word
import odfdo
import pptx
import xlsxwriter
from PIL import Image

_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument'
    '.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
    'officeDocument" Target="word/document.xml"/></Relationships>'
)
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return made.getvalue()


def docx(*paragraphs: str, cell: str = "", dtd: str = "") -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    if cell:
        body += f"<w:tbl><w:tr><w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    document = f'<?xml version="1.0"?>{dtd}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    return zipped(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _RELATIONS,
            "word/document.xml": document,
        }
    )


def letter(header: str, body: str, comment: str) -> bytes:
    """A Word file with words beside its text."""
    document = word.Document()
    document.sections[0].header.paragraphs[0].text = header
    document.add_comment(document.add_paragraph(body).runs, comment)
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def xlsx(folder: Path, *rows: Sequence[str | float], sheet: str = "Sheet") -> bytes:
    path = folder / "made.xlsx"
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet(sheet)
        for number, row in enumerate(rows):
            page.write_row(number, 0, row)
    return path.read_bytes()


def sparse(folder: Path) -> bytes:
    """A table with something in its first cell and in its last."""
    path = folder / "made.xlsx"
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet()
        page.write(0, 0, "first")
        page.write(1_048_575, 16_383, "last")
    return path.read_bytes()


def slides(title: str, body: str, notes: str, cell: str) -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = body
    slide.notes_slide.notes_text_frame.text = notes
    slide.shapes.add_table(1, 1, 0, 0, 1000, 1000).table.cell(0, 0).text = cell
    made = io.BytesIO()
    deck.save(made)
    return made.getvalue()


def _odf(document: odfdo.Document) -> bytes:
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def odt(heading: str, paragraph: str) -> bytes:
    document = odfdo.Document("text")
    document.body.append(odfdo.Header(1, heading))
    document.body.append(odfdo.Paragraph(paragraph))
    return _odf(document)


def ods(value: str) -> bytes:
    document = odfdo.Document("spreadsheet")
    table = odfdo.Table("Table")
    table.set_value("A1", value)
    document.body.append(table)
    return _odf(document)


def odp(text: str) -> bytes:
    document = odfdo.Document("presentation")
    page = odfdo.DrawPage("page1")
    page.append(odfdo.Frame.text_frame(text, size=("7cm", "5cm")))
    document.body.append(page)
    return _odf(document)


def pdf(*pages: str) -> bytes:
    """Pages of one line each; by hand, as no library of ours writes text into PDFs."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 24 Tf 20 100 Td ({text}) Tj ET"
        number = len(objects) + 1
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] /Contents {number} 0 R "
            "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{number + 1} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    made = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    return made + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def picture(
    kind: str = "PNG", size: tuple[int, int] = (400, 200), mode: str = "RGB", **options: object
) -> bytes:
    made = io.BytesIO()
    Image.new(mode, size, "red" if mode != "L" else 128).save(made, kind, **options)
    return made.getvalue()
