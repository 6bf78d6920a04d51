"""Makes thumbnails of images and of the first page of a PDF.

Runs in the worker (see worker.py), for the same reasons as extraction.py.  A thumbnail keeps the aspect ratio
and the orientation, and is never larger than the image.

Rule: the number of pixels is checked before the image is decoded.
"""

import io
import warnings
from pathlib import Path
from typing import Any

from cmsfs.service.worker import extraction

# 80 megapixels take 240 MB of memory: more than any phone camera has, less than the worker's limit.
MAX_PIXELS = 80_000_000

# Formats that may be opened.  Others of the library's start programs, or need unbounded memory.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")

_SAVED: dict[str, tuple[str, dict[str, Any]]] = {
    "jpg": ("JPEG", {"quality": 85, "optimize": True}),
    "png": ("PNG", {"optimize": True}),
}


def draw(path: Path, extension: str, width: int, height: int) -> bytes:
    """Draw a thumbnail within this width and height.  Raises `extraction.Unreadable`, and `OSError`."""
    # Imported here: a worker that only extracts text does not need it.
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
                # A JPEG is decoded at down to an eighth of its size where that suffices.
                opened.draft(None, (2 * width, 2 * height))
                picture = ImageOps.exif_transpose(opened)
            picture.thumbnail((width, height), Image.Resampling.LANCZOS)
            kind, options = _SAVED[extension]
            made = io.BytesIO()
            _convert(picture, kind).save(made, kind, **options)
            return made.getvalue()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise extraction.Unreadable(f"it has more than {MAX_PIXELS} pixels") from None
    except (extraction.Unreadable, MemoryError):
        raise
    except ImportError:
        raise extraction.Unreadable(extraction.MISSING_LIBRARY) from None
    except Exception as error:
        raise extraction.Unreadable(f"{type(error).__name__}: {error}"[:200]) from error


def _convert(picture: Any, kind: str) -> Any:
    """Convert an image to a mode that the format supports; in a JPEG, transparent pixels become white."""
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
        # A page's size in points is up to its author; the drawing is never larger than requested.
        return page.render(scale=min(width / across, height / down)).to_pil().convert("RGB")
    finally:
        document.close()
