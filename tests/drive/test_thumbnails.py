"""A folder of photos on a real mount: small pictures in the desktop's cache, and no photo downloaded."""

import ctypes
import ctypes.util
import hashlib
import io
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from PIL import Image

from daemon.desktop import thumbnail_cache
from tests.support.mounted_drive import MountedDrive
from tests.support.served import until

SECONDS = 60.0


def _photo(colour: str, size: tuple[int, int] = (800, 600)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, colour).save(made, "JPEG")
    return made.getvalue()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Programs that the drive knows by the names of their executables."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, does in (
        ("nautilus", "ls"),
        ("tumblerd", "cat"),
        ("some-thumbnailer", "cat"),
        ("viewer", "cat"),
    ):
        shutil.copy(shutil.which(does) or does, folder / name)
    return folder


def test_photo_folder_opens_without_download(stopped: MountedDrive, tmp_path: Path, programs: Path) -> None:
    def look() -> None:
        subprocess.run([programs / "nautilus", stopped.top], check=True, stdout=subprocess.DEVNULL)

    stopped.start()  # fills the service
    stopped.stop()
    names = ["red.jpg", "dark blue;é #1%.JPG", "green (2).jpeg"]
    for name, colour in zip(names, ("red", "navy", "green"), strict=True):
        (tmp_path / name).write_bytes(_photo(colour))
        stopped.cmsfs("put", tmp_path / name, "/")
    (tmp_path / "no photo.jpg").write_bytes(b"words")
    stopped.cmsfs("put", tmp_path / "no photo.jpg", "/")
    stopped.start()

    cache = stopped.home / "cache" / "thumbnails"
    (cache / "x-large").mkdir(parents=True)  # as file managers make it on a screen of double density
    (cache / "x-large").chmod(0o700)
    list(stopped.top.iterdir())  # no file manager, so nobody is kept waiting
    deadline = time.monotonic() + SECONDS
    while len(list(cache.glob("*/*.png"))) < 3 * len(names) and time.monotonic() < deadline:
        look()

    for name in names:
        path = stopped.top / name
        uri = thumbnail_cache.uri(path)
        for size, pixels in (("normal", 128), ("large", 256), ("x-large", 512)):
            picture = cache / size / (hashlib.md5(uri.encode()).hexdigest() + ".png")
            assert picture.stat().st_mode & 0o777 == 0o600
            assert picture.parent.stat().st_mode & 0o777 == 0o700
            with Image.open(picture) as opened:
                assert opened.format == "PNG"
                assert max(opened.size) == pixels
                assert opened.info["Thumb::URI"] == uri
                assert int(opened.info["Thumb::MTIME"]) == int(path.stat().st_mtime)
    assert len(list(cache.glob("*/*"))) == 3 * len(names)
    # What is there and fresh is not asked for again, and no photo was read.
    asked = stopped.status()["requests"]["thumbnail"]
    look()
    after = stopped.status()
    assert after["requests"]["thumbnail"] == asked
    assert after["requests"].get("read", 0) == 0

    # A photo that was replaced gets another picture.
    (stopped.top / "red.jpg").write_bytes(_photo("yellow"))
    stopped.sync()
    old = thumbnail_cache.path_of(cache, "normal", thumbnail_cache.uri(stopped.top / "red.jpg"))
    while not _is_yellow(old) and time.monotonic() < deadline:
        look()
    assert _is_yellow(old)


def test_thumbnailers_do_not_download(stopped: MountedDrive, tmp_path: Path, programs: Path) -> None:
    stopped.start()
    stopped.stop()
    (tmp_path / "far.bin").write_bytes(b"far away")
    stopped.cmsfs("put", tmp_path / "far.bin", "/")
    stopped.start()
    path = stopped.top / "far.bin"
    until(path.exists)

    def read(program: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([programs / program, path], check=False, capture_output=True)

    for program in ("tumblerd", "some-thumbnailer"):
        refused = read(program)
        assert refused.returncode != 0
        assert b"Permission denied" in refused.stderr
    assert stopped.status()["requests"].get("read", 0) == 0
    assert read("viewer").stdout == b"far away"
    assert read("tumblerd").stdout == b"far away"
    (stopped.top / "new.bin").write_bytes(b"written here")
    path = stopped.top / "new.bin"
    assert read("tumblerd").stdout == b"written here"


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
