"""The mounts of this machine: lists them, detects dead ones, unmounts.

The drive looks here before it mounts, the command line before it starts or stops one.  It reads
`/proc/self/mountinfo`, which never touches a mount, and asks a mount itself only through a child process,
because a mount whose process hangs takes whoever asks it with it.

Rule: no FUSE library here, and no call on a mounted path from this process.  What a person can mend is a
`UserError` of one sentence: exit code 3 is the mountpoint, 4 is FUSE on this machine.
"""

import errno
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cmsfs import errors, mountpoint_guard
from cmsfs.runtime import clock

log = logging.getLogger(__name__)

FSNAME = "cmsfs"
BAD_MOUNTPOINT = 3
NO_FUSE = 4

# A drive answers from its own disk, so this long without an answer is a process that hangs.
PATIENCE = 3.0

# One request of FUSE is no larger.  More would have who maps a file fetch that much around each place that is
# touched.
READ_AHEAD_KIB = 1024

MOUNTINFO = Path("/proc/self/mountinfo")
FUSECTL = Path("/sys/fs/fuse/connections")
DEVICE = Path("/dev/fuse")

_ESCAPE = re.compile(r"\\([0-7]{3})")
_USER_ID = re.compile(r"(?:^|,)user_id=(\d+)")

# Not a stat: the kernel answers that from what it remembers, for minutes after the process is dead.
_ASK = "import os, sys\ntry: os.statvfs(sys.argv[1])\nexcept OSError as e: sys.exit(e.errno)"


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo.  `connection` is the number under `FUSECTL`, `user_id` who mounted it."""

    mountpoint: str
    fstype: str
    connection: int
    user_id: int | None

    @property
    def is_drive(self) -> bool:
        """Whether it is a drive of ours, alive or dead."""
        return self.fstype == f"fuse.{FSNAME}"


def listing() -> list[Mount]:
    """All mounts that this process sees; of several on one path the last is the one in effect."""
    return [_parsed(line) for line in MOUNTINFO.read_text("utf-8", "surrogateescape").splitlines()]


def _parsed(line: str) -> Mount:
    fields, _, rest = line.partition(" - ")
    device, mountpoint = fields.split(" ")[2], fields.split(" ")[4]
    fstype, _, options = rest.partition(" ")
    user = _USER_ID.search(options.rpartition(" ")[2])
    path = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), mountpoint)
    return Mount(path, fstype, int(device.partition(":")[2]), int(user[1]) if user else None)


def find(path: Path) -> Mount | None:
    """The mount in effect at a path, which is not touched (give it absolute and resolved)."""
    return next((mount for mount in reversed(listing()) if mount.mountpoint == str(path)), None)


def located(path: Path) -> Path:
    """The absolute path with every symlink resolved, without touching a mount at its end."""
    path = path.expanduser().absolute()
    if path.name in ("", ".."):
        return path.resolve()
    path = path.parent.resolve() / path.name
    if find(path) is None and path.is_symlink():
        return located(path.parent / path.readlink())
    return path


def answer(path: Path) -> int:
    """The errno of a question to the mount at `path` by a child process: 0 it lives, ENOTCONN its process is
    dead, ETIMEDOUT it does not answer.  Blocks up to `PATIENCE`."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", _ASK, str(path)], os.environ)
    end = clock.monotonic() + PATIENCE
    while clock.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        clock.sleep(0.005)
    # It cannot be waited for: a signal reaches it only when the mount answers.
    os.kill(child, 9)
    return errno.ETIMEDOUT


def detach(path: Path) -> None:
    """Take the topmost mount off a path now; files that are open in it live on.  Blocks.

    Raises `UserError` with the system's reason.
    """
    if helper := shutil.which("fusermount3"):
        command = [helper, "-u", "-z", "--", str(path)]
    else:
        command = ["umount", "-l", "--", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        reason = done.stderr.strip().rpartition(": ")[2] or f"{command[0]} failed"
        raise errors.UserError(f"{path} could not be unmounted: {reason}.", exit_code=BAD_MOUNTPOINT)


def stale_mounts() -> list[Mount]:
    """This user's drives whose process is dead.  Blocks, a few seconds at worst for each that hangs."""
    ours = [mount for mount in listing() if mount.is_drive and mount.user_id == os.geteuid()]
    return [mount for mount in ours if answer(Path(mount.mountpoint)) == errno.ENOTCONN]


def clean_stale(path: Path) -> bool:
    """Take this user's dead drives off `path`; whether there was one.  Blocks.

    Raises `UserError` for anything else that is mounted there.
    """
    cleaned = False
    # A drive can have been mounted over a dead one.
    while (mount := find(path)) is not None:
        _refuse_unless_stale(mount)
        log.info("cleaning up the mount of a dead drive")
        detach(path)
        cleaned = True
    return cleaned


def _refuse_unless_stale(mount: Mount) -> None:
    path = mount.mountpoint
    if not mount.is_drive:
        raise _bad(f"{path} has another file system ({mount.fstype}) mounted on it.")
    if mount.user_id != os.geteuid():
        raise _bad(f"{path} is the drive of another user.")
    match answer(Path(path)):
        case errno.ENOTCONN:
            return
        case errno.ETIMEDOUT:
            raise _bad(f"{path} has a drive that is not responding; `fusermount3 -u -z {path}` unmounts it.")
        case _:
            raise _bad(f"{path} already has a drive mounted on it.")


def prepare(path: Path, *, create: bool = False, over: bool = False) -> Path:
    """The folder to mount on, resolved, made if `create`, and freed of a dead drive.  Blocks.

    Raises `UserError` unless it is an empty folder of this user with nothing mounted on it; or, to mount
    `over` what lies in it, any.
    """
    path = located(path)
    clean_stale(path)
    if create:
        _make(path)
    try:
        found = path.stat()
    except FileNotFoundError:
        raise _bad(f"The mountpoint {path} does not exist.") from None
    except OSError as error:
        raise _bad(f"The mountpoint {path} cannot be used: {error.strerror}.") from None
    if not stat.S_ISDIR(found.st_mode):
        raise _bad(f"The mountpoint {path} is not a folder.")
    if os.geteuid() not in (0, found.st_uid):
        raise _bad(f"The mountpoint {path} belongs to another user.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise _bad(f"The mountpoint {path} cannot be read by this user.")
    if not over and any(path.iterdir()):
        raise _bad(f"The mountpoint {path} is not empty, and the drive would hide what is in it.")
    return path


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=mountpoint_guard.BARRED, exist_ok=True)
    except FileExistsError:
        return  # something that is not a folder, which `prepare` says better
    except FileNotFoundError:
        raise _bad(f"The mountpoint {path} cannot be made: {path.parent} does not exist.") from None
    except OSError as error:
        raise _bad(f"The mountpoint {path} cannot be created: {error.strerror}.") from None


def require_fuse() -> None:
    """Raises `UserError` unless this user can mount with FUSE here."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        raise _no_fuse(f"There is no {DEVICE}: the kernel's fuse module is not loaded.") from None
    except OSError as error:
        raise _no_fuse(f"{DEVICE} cannot be opened: {error.strerror}.") from None
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise _no_fuse("fusermount3 is missing; it comes with the package fuse3.")


def ensure_fusectl() -> bool:
    """Whether FUSE's control files are there; root mounts them if they are not.  Blocks."""
    if not any(FUSECTL.glob("*/abort")) and os.geteuid() == 0 and find(FUSECTL) is None:
        subprocess.run(["mount", "-t", "fusectl", "fusectl", str(FUSECTL)], capture_output=True, check=False)
    return find(FUSECTL) is not None


def abort(connection: int) -> bool:
    """Break a connection: every call that waits in it ends with an error.  Any thread may call this.

    False if there is no such connection, or its control file is not to be had.  For a mount that is seen: the
    number of one that has gone may already be another's (`AbortSwitch`).
    """
    try:
        (FUSECTL / str(connection) / "abort").write_text("1")
    except OSError:
        return False
    return True


class AbortSwitch:
    """Breaks one connection, and never the next one that is given its number.

    The kernel gives a number away again as soon as a drive is unmounted, to a mount that may not even be in
    mountinfo yet.  An open control file is this connection's alone: once that is gone, writing to it does
    nothing (`fuse_ctl_remove_conn` of the kernel's fs/fuse/control.c).
    """

    def __init__(self, connection: int) -> None:
        self._file: int | None = None
        try:
            self._file = os.open(FUSECTL / str(connection) / "abort", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            log.debug("there is no control file of FUSE connection %d", connection)

    def abort(self) -> bool:
        """Break it; any thread may call this.  False if it could not be."""
        if self._file is None:
            return False
        try:
            os.write(self._file, b"1")
        except OSError:
            return False
        return True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def raise_read_ahead(connection: int) -> bool:
    """Have the kernel read further ahead on a drive of ours; whether we may say so, which only root may.

    Of a large file it asks for a MiB at a time then, 1,024 requests a GiB in place of 8,192.  A drive of
    another user does without (`cmsfs doctor` says so).  To be called when the drive has answered.
    """
    try:
        _read_ahead(connection).write_text(str(READ_AHEAD_KIB))
    except OSError:
        return False
    return True


def read_ahead(connection: int) -> int | None:
    """How many KiB the kernel reads ahead there; None where that cannot be told."""
    try:
        return int(_read_ahead(connection).read_text())
    except (OSError, ValueError):
        return None


def read_ahead_remedy(connection: int) -> str:
    """The command that raises it, as root."""
    return f"echo {READ_AHEAD_KIB} | sudo tee {_read_ahead(connection)}"


def _read_ahead(connection: int) -> Path:
    return Path(f"/sys/class/bdi/0:{connection}/read_ahead_kb")


def _bad(message: str) -> errors.UserError:
    return errors.UserError(message, exit_code=BAD_MOUNTPOINT)


def _no_fuse(message: str) -> errors.UserError:
    return errors.UserError(message, exit_code=NO_FUSE)
