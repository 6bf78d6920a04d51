"""Makes thumbnails of images and of the first page of a PDF.

Runs in the worker (see worker.py), like extraction.py and for the same reasons.  A picture keeps its
proportions and its right way up, and is never made larger than it is.

Rule: how many pixels a picture has is looked at before the first of them is unpacked.
"""

import io
import warnings
from pathlib import Path
from typing import Any

from cmsfs.service.worker import extraction

# 80 megapixels are 240 MB of memory: larger than any camera of a telephone, smaller than the worker's limit.
MAX_PIXELS = 80_000_000

# What may be opened.  Others among the library's formats start programs, or need memory without bounds.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")

_SAVED: dict[str, tuple[str, dict[str, Any]]] = {
    "jpg": ("JPEG", {"quality": 85, "optimize": True}),
    "png": ("PNG", {"optimize": True}),
}


def draw(path: Path, extension: str, width: int, height: int) -> bytes:
    """A picture of the file, at most so wide and high.  Raises `extraction.Unreadable`, and `OSError`."""
    # Here and not above: a worker that only reads texts does without.
    from PIL import Image, ImageOps

    Image.init()
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        with path.open("rb") as file:
            head = file.read(1024)
            if b"%PDF-" in head:
                picture = _first_page(path, width, height)
            else:
                opened = Image.open(file, formats=FORMATS)
                # A JPEG is unpacked at an eighth of its size where that is enough.
                opened.draft(None, (2 * width, 2 * height))
                picture = ImageOps.exif_transpose(opened)
            picture.thumbnail((width, height), Image.Resampling.LANCZOS)
            kind, options = _SAVED[extension]
            made = io.BytesIO()
            _for(picture, kind).save(made, kind, **options)
            return made.getvalue()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise extraction.Unreadable(f"it has more than {MAX_PIXELS} pixels") from None
    except (extraction.Unreadable, MemoryError):
        raise
    except ImportError:
        raise extraction.Unreadable(extraction.NO_READER) from None
    except Exception as error:
        raise extraction.Unreadable(f"{type(error).__name__}: {error}"[:200]) from error


def _for(picture: Any, kind: str) -> Any:
    """The picture in a mode that the format has; what is transparent is white in a JPEG."""
    from PIL import Image

    if kind == "PNG":
        return picture if picture.mode in ("RGB", "RGBA", "L", "LA") else picture.convert("RGBA")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture).convert("RGB")
    return picture.convert("RGB")


def _first_page(path: Path, width: int, height: int) -> Any:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    try:
        page = document[0]
        across, down = page.get_size()
        # A page has a size in points of its author's choice; what is drawn is never larger than asked.
        return page.render(scale=min(width / across, height / down)).to_pil().convert("RGB")
    finally:
        document.close()
