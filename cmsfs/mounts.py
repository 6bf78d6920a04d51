"""The mounts of this machine: lists them, detects dead ones, unmounts.

The drive uses it before it mounts, the command line before it starts or stops a drive.  It reads
`/proc/self/mountinfo`, which does not access any mount, and accesses a mount only in a child process, because
a call to a mount whose process hangs blocks the caller.

Rule: imports no FUSE library, and makes no call on a mounted path in this process.  Problems that the user
can solve raise `UserError` with one sentence: exit code 3 is the mountpoint, 4 is FUSE on this machine.
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

# Timeout in seconds: a drive responds from its local state, so a process that takes longer hangs.
PATIENCE = 3.0

# The maximum size of a FUSE request.  A larger read-ahead would, for memory-mapped files, read that much
# around each page fault.
READ_AHEAD_KIB = 1024

MOUNTINFO = Path("/proc/self/mountinfo")
FUSECTL = Path("/sys/fs/fuse/connections")
DEVICE = Path("/dev/fuse")

# Where a system has its programs.
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/run/wrappers/bin"

_ESCAPE = re.compile(r"\\([0-7]{3})")
_USER_ID = re.compile(r"(?:^|,)user_id=(\d+)")

# Not a stat: the kernel answers it from its cache for minutes after the process has died.
_ASK = "import os, sys\ntry: os.statvfs(sys.argv[1])\nexcept OSError as e: sys.exit(e.errno)"


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of mountinfo.  `connection` is the number below `FUSECTL`, `user_id` the user who mounted it."""

    mountpoint: str
    fstype: str
    connection: int
    user_id: int | None

    @property
    def is_drive(self) -> bool:
        """Whether it is a cmsfs drive, alive or dead."""
        return self.fstype == f"fuse.{FSNAME}"


def listing() -> list[Mount]:
    """Return all mounts of this process's namespace; of several on one path, the last is the topmost."""
    return [_parsed(line) for line in MOUNTINFO.read_text("utf-8", "surrogateescape").splitlines()]


def _parsed(line: str) -> Mount:
    fields, _, rest = line.partition(" - ")
    device, mountpoint = fields.split(" ")[2], fields.split(" ")[4]
    fstype, _, options = rest.partition(" ")
    user = _USER_ID.search(options.rpartition(" ")[2])
    path = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), mountpoint)
    return Mount(path, fstype, int(device.partition(":")[2]), int(user[1]) if user else None)


def find(path: Path) -> Mount | None:
    """Return the topmost mount at an absolute, resolved path, without accessing the mount."""
    return next((mount for mount in reversed(listing()) if mount.mountpoint == str(path)), None)


def located(path: Path) -> Path:
    """Return the absolute path with all symbolic links resolved, without accessing a mount at its end."""
    path = path.expanduser().absolute()
    if path.name in ("", ".."):
        return path.resolve()
    path = path.parent.resolve() / path.name
    if find(path) is None and path.is_symlink():
        return located(path.parent / path.readlink())
    return path


def answer(path: Path) -> int:
    """Access the mount at `path` in a child process; return the errno: 0 if it is alive, ENOTCONN if its
    process is dead, ETIMEDOUT if it does not respond.  Blocks up to `PATIENCE` seconds."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", _ASK, str(path)], os.environ)
    end = clock.monotonic() + PATIENCE
    while clock.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        clock.sleep(0.005)
    # Do not wait for it: the signal takes effect only when the mount responds.
    os.kill(child, 9)
    return errno.ETIMEDOUT


def detach(path: Path) -> None:
    """Unmount the topmost mount at a path lazily: open files stay accessible.  Blocks.

    Raises `UserError` with the system's error message.
    """
    if helper := _program("fusermount3"):
        command = [helper, "-u", "-z", "--", str(path)]
    else:
        command = [_program("umount") or "umount", "-l", "--", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        reason = done.stderr.strip().rpartition(": ")[2] or f"{command[0]} failed"
        raise errors.UserError(f"{path} could not be unmounted: {reason}.", exit_code=BAD_MOUNTPOINT)


def _program(name: str) -> str | None:
    """Return the path of a program of the system; only what it does not have is searched for on the `PATH`,
    which may lead to the drive that this very process serves."""
    return shutil.which(name, path=_SYSTEM_PATH) or shutil.which(name)


def stale_mounts() -> list[Mount]:
    """Return this user's drives whose process is dead.  Blocks, up to `PATIENCE` seconds per hung drive."""
    ours = [mount for mount in listing() if mount.is_drive and mount.user_id == os.geteuid()]
    return [mount for mount in ours if answer(Path(mount.mountpoint)) == errno.ENOTCONN]


def clean_stale(path: Path) -> bool:
    """Unmount this user's dead drives at `path`; return whether there was one.  Blocks.

    Raises `UserError` if anything else is mounted there.
    """
    cleaned = False
    # A drive may be mounted over a dead one.
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
    """Return the resolved mountpoint, created if `create`, after unmounting a dead drive there.  Blocks.

    Raises `UserError` unless it is a folder of this user with nothing mounted on it, and empty or `over`.
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
        return  # not a folder: `prepare` reports it
    except FileNotFoundError:
        raise _bad(f"The mountpoint {path} cannot be made: {path.parent} does not exist.") from None
    except OSError as error:
        raise _bad(f"The mountpoint {path} cannot be created: {error.strerror}.") from None


def require_fuse() -> None:
    """Raise `UserError` unless this user can mount with FUSE on this machine."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        raise _no_fuse(f"There is no {DEVICE}: the kernel's fuse module is not loaded.") from None
    except OSError as error:
        raise _no_fuse(f"{DEVICE} cannot be opened: {error.strerror}.") from None
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise _no_fuse("fusermount3 is missing; it comes with the package fuse3.")


def ensure_fusectl() -> bool:
    """Return whether FUSE's control files are available; as root, mount them if necessary.  Blocks."""
    if not any(FUSECTL.glob("*/abort")) and os.geteuid() == 0 and find(FUSECTL) is None:
        command = [_program("mount") or "mount", "-t", "fusectl", "fusectl", str(FUSECTL)]
        subprocess.run(command, capture_output=True, check=False)
    return find(FUSECTL) is not None


def abort(connection: int) -> bool:
    """Abort a FUSE connection: all pending calls fail.  Any thread may call this.

    Return False if there is no such connection, or its control file is not accessible.  Only for an existing
    mount: the number of a removed one may already belong to another (`AbortSwitch`).
    """
    try:
        (FUSECTL / str(connection) / "abort").write_text("1")
    except OSError:
        return False
    return True


class AbortSwitch:
    """Aborts one FUSE connection, and never a later one that gets the same number.

    The kernel reuses a number as soon as a drive is unmounted, possibly for a mount that is not in mountinfo
    yet.  An open control file belongs only to this connection: after the connection is gone, writing to it
    has no effect (`fuse_ctl_remove_conn` in the kernel's fs/fuse/control.c).
    """

    def __init__(self, connection: int) -> None:
        self._file: int | None = None
        try:
            self._file = os.open(FUSECTL / str(connection) / "abort", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            log.debug("there is no control file of FUSE connection %d", connection)

    def abort(self) -> bool:
        """Abort the connection; return False on failure.  Any thread may call this."""
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
    """Raise the kernel's read-ahead of a drive; return whether it was permitted, which requires root.

    The kernel then reads large files 1 MiB at a time, with 1,024 requests per GiB instead of 8,192.  Drives
    of other users work without it (`cmsfs doctor` reports that).  Call it after the drive has responded.
    """
    try:
        _read_ahead(connection).write_text(str(READ_AHEAD_KIB))
    except OSError:
        return False
    return True


def read_ahead(connection: int) -> int | None:
    """Return the kernel's read-ahead of a connection in KiB; None if unknown."""
    try:
        return int(_read_ahead(connection).read_text())
    except (OSError, ValueError):
        return None


def read_ahead_remedy(connection: int) -> str:
    """Return the command with which root raises the read-ahead."""
    return f"echo {READ_AHEAD_KIB} | sudo tee {_read_ahead(connection)}"


def _read_ahead(connection: int) -> Path:
    return Path(f"/sys/class/bdi/0:{connection}/read_ahead_kb")


def _bad(message: str) -> errors.UserError:
    return errors.UserError(message, exit_code=BAD_MOUNTPOINT)


def _no_fuse(message: str) -> errors.UserError:
    return errors.UserError(message, exit_code=NO_FUSE)
