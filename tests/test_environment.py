"""What a process takes along when it becomes somebody else's, and what it lets nobody see."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cmsfs import config, process_env
from cmsfs.fuse import convert
from cmsfs.vfs.tree.attributes import Attributes, SetAttr

GET_DUMPABLE, SET_DUMPABLE = 3, 4


def test_mount_for_user_drops_root_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    roots = {
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/0/bus",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "SSL_CERT_FILE": "/etc/admin/ca.pem",
        "SSH_AUTH_SOCK": "/run/user/0/agent",
        "LD_PRELOAD": "/opt/x.so",
        "CMSFS_CONFIG": "/etc/admin/config",
        "XDG_CONFIG_HOME": "/etc/admin",
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    environ = dict(roots)
    monkeypatch.setattr(os, "environ", environ)
    process_env.move_home("ada", tmp_path)
    environ.pop("XDG_RUNTIME_DIR", None)
    assert environ == {
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(tmp_path),
        "USER": "ada",
        "LOGNAME": "ada",
    }


def test_process_memory_is_private() -> None:
    libc = ctypes.CDLL(None)
    before = libc.prctl(GET_DUMPABLE, 0, 0, 0, 0)
    try:
        process_env.keep_to_itself()
        assert libc.prctl(GET_DUMPABLE, 0, 0, 0, 0) == 0
        # It finds its own descriptors still, which long paths of sockets need.
        assert list(Path("/proc/self/fd").iterdir())
    finally:
        libc.prctl(SET_DUMPABLE, before, 0, 0, 0)


@pytest.mark.parametrize("module", ["cmsfs.cli.main", "cmsfs.cli.mount.mount_helper"])
def test_the_commands_begin_so(module: str) -> None:
    code = (
        f"import atexit, ctypes, sys, {module} as program\n"
        f"atexit.register(lambda: print('dumpable', ctypes.CDLL(None).prctl({GET_DUMPABLE}, 0, 0, 0, 0)))\n"
        "sys.argv = ['cmsfs', '--version']\n"
        "program.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("dumpable 0\n")


@pytest.mark.parametrize(
    ("settings", "bits"),
    [
        ({}, 0o755),
        ({"allow_other": True}, 0o700),
        ({"allow_other": True, "umask": "022"}, 0o755),
        ({"allow_other": True, "umask": "0"}, 0o755),
        ({"umask": "027"}, 0o750),
    ],
)
def test_others_see_nothing_unless_a_mask_says_so(settings: dict[str, object], bits: int) -> None:
    found = config.Settings.model_validate(settings)
    owner = convert.owner(found.uid, found.gid, umask=found.taken_bits)
    shown = convert.entry(Attributes(3, 0o040755, 0, 1, 0, 0, 0, 1.0), owner)
    assert shown.st_mode == 0o040000 | bits
    assert (shown.st_uid, shown.st_gid) == (os.getuid(), os.getgid())


def test_everything_can_show_as_somebody_elses() -> None:
    owner = convert.owner(1000, 1001)
    shown = convert.entry(Attributes(3, 0o100644, 0, 1, 0, 0, 0, 1.0), owner)
    assert (shown.st_uid, shown.st_gid) == (1000, 1001)

    class Fields:
        update_uid = update_gid = True
        update_size = update_mode = update_atime = update_mtime = False

    # Set to what it is: no change.
    assert convert.changes(shown, Fields(), owner) == SetAttr()  # type: ignore[arg-type]
    assert convert.changes(shown, Fields(), convert.owner(7, 8)) == SetAttr(uid=1000, gid=1001)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"umask": "9"}, {"umask": "rwx"}, {"uid": -1}])
def test_what_is_no_mask_or_number_is_told(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        config.Settings.model_validate(wrong)
