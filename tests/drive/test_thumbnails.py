"""A folder of photos on a real mount: small pictures in the desktop's cache, and no photo downloaded."""

import ctypes
import ctypes.util
import hashlib
import io
import time
from pathlib import Path

import pytest
from PIL import Image

from daemon.desktop import thumbnail_cache
from tests.support.mounted_drive import MountedDrive

SECONDS = 60.0


def _photo(colour: str, size: tuple[int, int] = (800, 600)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, colour).save(made, "JPEG")
    return made.getvalue()


def test_photo_folder_opens_without_download(
    stopped: MountedDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.start()  # fills the service
    stopped.stop()
    names = ["red.jpg", "dark blue;é #1%.JPG", "green (2).jpeg"]
    for name, colour in zip(names, ("red", "navy", "green"), strict=True):
        (tmp_path / name).write_bytes(_photo(colour))
        stopped.cmsfs("put", tmp_path / name, "/")
    (tmp_path / "no photo.jpg").write_bytes(b"words")
    stopped.cmsfs("put", tmp_path / "no photo.jpg", "/")
    monkeypatch.setenv("CMSFS_THUMBNAILS", "true")
    stopped.start()

    cache = stopped.home / "cache" / "thumbnails"
    deadline = time.monotonic() + SECONDS
    while len(list(cache.glob("*/*.png"))) < 2 * len(names) and time.monotonic() < deadline:
        list(stopped.top.iterdir())

    for name in names:
        path = stopped.top / name
        uri = thumbnail_cache.uri(path)
        for size, pixels in (("normal", 128), ("large", 256)):
            picture = cache / size / (hashlib.md5(uri.encode()).hexdigest() + ".png")
            assert picture.stat().st_mode & 0o777 == 0o600
            assert picture.parent.stat().st_mode & 0o777 == 0o700
            with Image.open(picture) as opened:
                assert opened.format == "PNG"
                assert max(opened.size) == pixels
                assert opened.info["Thumb::URI"] == uri
                assert int(opened.info["Thumb::MTIME"]) == int(path.stat().st_mtime)
    assert len(list(cache.glob("*/*"))) == 2 * len(names)
    # What is there and fresh is not asked for again, and no photo was read.
    asked = stopped.status()["requests"]["thumbnail"]
    list(stopped.top.iterdir())
    after = stopped.status()
    assert after["requests"]["thumbnail"] == asked
    assert after["requests"].get("read", 0) == 0

    # A photo that was replaced gets another picture.
    (stopped.top / "red.jpg").write_bytes(_photo("yellow"))
    stopped.sync()
    old = thumbnail_cache.path_of(cache, "normal", thumbnail_cache.uri(stopped.top / "red.jpg"))
    while not _is_yellow(old) and time.monotonic() < deadline:
        list(stopped.top.iterdir())
    assert _is_yellow(old)


def _is_yellow(path: Path) -> bool:
    with Image.open(path) as opened:
        red, green, blue = opened.convert("RGB").getpixel((5, 5))  # type: ignore[misc]
    return bool(red > 200 and green > 200 and blue < 80)


def test_addresses_are_those_of_the_desktop() -> None:
    found = ctypes.util.find_library("glib-2.0")
    if found is None:
        pytest.skip("GLib is not installed")
    glib = ctypes.CDLL(found)
    glib.g_filename_to_uri.restype = ctypes.c_char_p
    for path in ["/a/b c.jpg", "/" + "".join(map(chr, range(33, 127))), '/é/ü;#?%[]{}|\\^`"<>.png']:
        wanted = glib.g_filename_to_uri(path.encode(), None, None)
        assert thumbnail_cache.uri(Path(path)) == wanted.decode()
