"""What a program may not exceed, and many that write one file: as on a local disk."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.mounted_drive import MountedDrive

pytestmark = pytest.mark.long

LIMITED = """
import errno, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
signals = []
signal.signal(signal.SIGXFSZ, lambda *_: signals.append("SIGXFSZ"))
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | (os.O_APPEND if sys.argv[2] == "append" else 0))
def told(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
print([told(os.write, fd, b"x" * 4000) for _ in range(3)], told(os.ftruncate, fd, 6000), signals)
print(os.fstat(fd).st_size)
"""

APPENDING = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for _ in range(500):
    os.write(fd, (sys.argv[2] * 99 + "\\n").encode())
os.close(fd)
"""


def _run(code: str, *words: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_file_size_and_append_match_local_disk(drive: MountedDrive, tmp_path: Path) -> None:
    for way in ("write", "append"):
        here, there = (_run(LIMITED, folder / way, way).communicate()[0] for folder in (drive.top, tmp_path))
        assert here == there
        assert "EFBIG" in here and "SIGXFSZ" in here and here.endswith("\n5000\n")
    writers = [_run(APPENDING, drive.top / "log", who) for who in "abcd"]
    for writer in writers:
        writer.communicate(timeout=85)
    assert [writer.returncode for writer in writers] == [0] * 4
    lines = (drive.top / "log").read_text().splitlines()
    assert sorted(lines) == sorted(who * 99 for who in "abcd" for _ in range(500))
