"""Archives of every size are what readers take for one."""

import os
import shutil
import subprocess
import zipfile

import pytest

from cmsfs.service.archives import zip_writer

GIB = 1024**3


def test_beyond_four_gigabytes(tmp_path):
    """The archive begins after a hole of five; a reader finds everything by its directory."""
    writer = zip_writer.ZipWriter()
    writer._at = 5 * GIB
    path = tmp_path / "large.zip"
    with path.open("wb") as file:
        file.seek(writer._at)
        file.write(writer.file("small", b"abc", 0))
        # As large as it is said to be or not: its sizes are written as of a large one.
        file.write(writer.begin("large", 5 * GIB, 2**40) + writer.more(b"x" * 70_000) + writer.end())
        file.write(writer.close())
    with zipfile.ZipFile(path) as found:
        assert found.testzip() is None
        assert {one.filename: one.file_size for one in found.infolist()} == {"small": 3, "large": 70_000}
        assert found.getinfo("large").header_offset > 5 * GIB
    os.truncate(path, 0)


def test_more_than_65535_entries(tmp_path):
    writer = zip_writer.ZipWriter()
    path = tmp_path / "many.zip"
    with path.open("wb") as file:
        for number in range(66_000):
            file.write(writer.folder(f"{number}/", 1_600_000_000))
        file.write(writer.close())
    with zipfile.ZipFile(path) as found:
        assert len(found.namelist()) == 66_000


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not here")
def test_unzip_takes_it(tmp_path):
    writer = zip_writer.ZipWriter()
    path = tmp_path / "a.zip"
    parts = [
        *(writer.folder("ä/", 0), writer.file("ä/ß", b"abc", 0), writer.begin("ä/large", 5 * GIB, 0)),
        *(writer.more(b"y" * 200_000), writer.end(), writer.begin("plain", 10, 0), writer.more(b"z" * 10)),
        *(writer.end(), writer.close()),
    ]
    path.write_bytes(b"".join(parts))
    done = subprocess.run(["unzip", "-tq", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
