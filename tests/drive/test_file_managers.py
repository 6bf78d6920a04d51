"""What programs that watch folders of a drive hear of changes made elsewhere, in much and in all programs."""

import shutil
import subprocess

import pytest

from tests.support.inotify import Trace
from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until

MANY = 1000


@pytest.mark.long
@pytest.mark.skipif(shutil.which("inotifywait") is None, reason="inotifywait (inotify-tools) is missing")
def test_a_thousand_new_files_are_heard(stopped: MountedDrive, api: Api) -> None:
    top = stopped.top
    folder = api.folder("box")
    until((top / "box").is_dir)
    assert list((top / "box").iterdir()) == []
    watch = Trace(top / "box")
    command = ["inotifywait", "-mrq", "-e", "create", "--format", "%w%f", str(top)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as told:
        assert told.stdout is not None
        for number in range(MANY):
            api.file(f"{number:04}", b"x", folder)
        events = watch.until("CLOSE_WRITE", f"{MANY - 1:04}")
        names = [f"{number:04}" for number in range(MANY)]
        assert sorted(events) == sorted((kind, name) for name in names for kind in ("CREATE", "CLOSE_WRITE"))
        recursive = [told.stdout.readline().strip() for _ in range(MANY)]
        assert recursive == [str(top / "box" / name) for name in names]
        told.terminate()
    # A save of this machine is told by the kernel alone, and its upload is no news.
    (top / "box" / "mine").write_bytes(b"mine")
    stopped.sync()
    api.file("theirs", b"x", folder)
    assert watch.until("CLOSE_WRITE", "theirs") == [
        *[("CREATE", "mine"), ("MODIFY", "mine"), ("CLOSE_WRITE", "mine")],
        *[("CREATE", "theirs"), ("CLOSE_WRITE", "theirs")],
    ]
    watch.close()
