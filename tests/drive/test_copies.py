"""Copies within a mounted drive: which of them the service makes, and which programs send."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until

LARGE = 1024 * 1024
COUNTED = ("copy", "upload", "read")


@pytest.fixture
def spent() -> Callable[[MountedDrive], dict[str, int]]:
    """`spent(drive)`: how many requests of each kind were made since it was asked last."""
    before = dict.fromkeys(COUNTED, 0)

    def ask(drive: MountedDrive) -> dict[str, int]:
        now = {name: drive.status()["requests"].get(name, 0) for name in COUNTED}
        found = {name: now[name] - before[name] for name in COUNTED}
        before.update(now)
        return found

    return ask


def test_the_service_makes_the_copies_of_programs(
    shared: MountedDrive, spent: Callable[[MountedDrive], dict[str, int]]
) -> None:
    data = os.urandom(LARGE)
    (shared.top / "source").write_bytes(data)
    shared.sync()
    spent(shared)
    shared.sh("cp --reflink=auto source copy", cwd=shared.top)
    shared.sync()
    assert spent(shared) == {"copy": 1, "upload": 0, "read": 0}
    assert (shared.top / "copy").read_bytes() == data
    with (shared.top / "source").open("rb") as source, (shared.top / "copy").open("r+b") as copy:
        with pytest.raises(OSError) as refused:
            fcntl.ioctl(copy.fileno(), 0x40049409, source.fileno())
        assert refused.value.errno == errno.EOPNOTSUPP


def test_small_files_that_programs_copy_are_sent(
    shared: MountedDrive, spent: Callable[[MountedDrive], dict[str, int]]
) -> None:
    (shared.top / "small").write_bytes(os.urandom(LARGE - 1))
    shared.sync()
    spent(shared)
    shared.sh("cp small copy", cwd=shared.top)
    shared.sync()
    assert spent(shared) == {"copy": 0, "upload": 1, "read": 0}
    # On request, the service copies any size.
    shared.cmsfs("copy", shared.top / "small", shared.top / "asked")
    assert spent(shared) == {"copy": 1, "upload": 0, "read": 0}
    shared.sh("cmp small copy && cmp small asked", cwd=shared.top)


def test_copies_without_a_network_are_made_by_the_service_later(
    stopped: MountedDrive, api: Api, spent: Callable[[MountedDrive], dict[str, int]], tmp_path: Path
) -> None:
    top = stopped.top
    large, small = os.urandom(LARGE), b"a small file that nobody has read here"
    folder = api.folder("Folder")
    api.file("large", large)
    for name in ("one", "two"):
        api.file(name, small + name.encode(), folder)
    number = api.file("small", small)
    api.update("file", number, description="About it")
    until(lambda: (top / "small").exists() and len(list((top / "Folder").glob("*"))) == 2)
    assert (top / "large").read_bytes() == large
    assert api.server is not None
    api.server.stop()
    until(lambda: stopped.status()["health"]["state"] == "offline")
    spent(stopped)
    duplicate = "gio copy" if shutil.which("gio") else "cp"
    stopped.sh(f"cp large copied; {duplicate} large duplicate")
    # Of what is not on this disk, too.
    stopped.cmsfs("copy", top / "small", top / "asked")
    stopped.cmsfs("copy", top / "Folder", top / "Folder copied")
    sizes = "stat -c %s copied duplicate asked 'Folder copied/one'"
    assert stopped.sh(sizes).split() == [str(LARGE), str(LARGE), str(len(small)), str(len(small) + 3)]
    assert stopped.status()["queue"]["waiting"] > 0
    api.server.start()
    stopped.sync()
    assert spent(stopped) == {"copy": 5, "upload": 0, "read": 0}
    for name, data in (
        ("copied", large),
        ("duplicate", large),
        ("asked", small),
        ("Folder copied/one", small + b"one"),
        ("Folder copied/two", small + b"two"),
    ):
        stopped.cmsfs("get", f"/{name}", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == data
        (tmp_path / "back").unlink()
    assert stopped.sh("getfattr --only-values -n user.cms.description asked") == "About it"
