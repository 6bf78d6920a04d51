"""Keeps a drive mounted while its daemon crashes and restarts (`keep_mounted`).

The process that starts daemons stores four descriptors: the connection to the kernel, the folder below the
mount, the lock of the account, and the record of the state that the kernel and programs hold.  That process
is the service manager, or a small program of our own (`holder`).  The next daemon takes over from them as
after an upgrade.

Rule: what cannot be taken over is dropped, and the drive is mounted again as after any other crash.
"""

import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from cmsfs import errors, sd_notify
from cmsfs.fuse import echo_process, resent, takeover
from cmsfs.fuse.drive import FilesystemPort
from cmsfs.mountpoint_guard import MountpointGuard
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database
from cmsfs.vfs.virtual.node import FIRST
from daemon.survival import holder
from daemon.survival.record import CrashRecord
from daemon.survival.recorded import CrashLeftovers, RecordedDrive

log = logging.getLogger(__name__)

DESCRIPTORS = (holder.CONNECTION, "ground", "lock", "record")

# Time limit for the echo process of the dead daemon to exit.
_EXIT_TIMEOUT_MS = 2000


def is_supported() -> bool:
    """Whether this kernel can resend requests and be told to look every name up again."""
    return takeover.can_resend() and takeover.can_expire_names()


def become_holder(address: Path, ready: int | None) -> NoReturn:
    """Replace this process with the holder, which runs this command line as the daemon.

    `ready`: the descriptor by which the daemon reports that it is ready.  Raises `OSError`."""
    if ready is not None:
        os.set_inheritable(ready, True)
    python = [sys.executable, "-I" if sys.flags.isolated else "-P"]
    command = [*python, "-m", "daemon", *sys.argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-I", "-S", holder.__file__, str(address), *command])


class Survival:
    """The crash record of this drive, and the state left by the previous daemon."""

    def __init__(self, record: CrashRecord, leftovers: CrashLeftovers) -> None:
        self._record = record
        self._leftovers = leftovers

    @classmethod
    def create(cls) -> "Survival | None":
        """Return one for a drive that is not mounted yet; None, with a warning, if this system cannot do
        it."""
        if not is_supported():
            log.warning("keep_mounted needs Linux 6.16 or newer; the drive ends with its process")
        elif not sd_notify.can_store_fds():
            log.warning("keep_mounted needs systemd 254 or newer; the drive ends with its process")
        else:
            try:
                return cls(CrashRecord.create(), CrashLeftovers())
            except OSError as error:
                log.warning("keep_mounted does not work, the drive ends with its process: %s", error)
        return None

    @classmethod
    def from_handover(cls, fd: int, state: dict[str, Any]) -> "Survival | None":
        """Return one for a drive handed over with its record; None if the record has another format."""
        try:
            survival = cls(CrashRecord(fd), CrashLeftovers())
        except ValueError as error:
            log.warning("the drive ends with its process from now on: %s", error)
            drop_descriptors()
            return None
        survival.mark_stale_handles(state)
        return survival

    def mark_stale_handles(self, state: dict[str, Any]) -> None:
        """Mark recorded handles that are not in the state as stale."""
        tree_handles, virtual = state["tree"]["tree"]["handles"], state["tree"]["virtual"]["files"]
        usable = {fh for fh, *_ in (*tree_handles, *virtual)}
        self._leftovers.stale_handles = {fh for fh, _, _ in self._record.handles() if fh not in usable}

    @property
    def mode(self) -> int:
        """The mode of the folder below the mount."""
        return int(self._record.about["mode"])

    @property
    def fd(self) -> int:
        """The record's descriptor."""
        return self._record.fd

    def wrap(
        self, drive: FilesystemPort, db: Database, *, reads_from: Callable[[int], object]
    ) -> RecordedDrive:
        """Return the drive wrapped so that its state is recorded; `reads_from` returns where the contents of
        an open virtual file come from."""

        def child(parent: Ino, name: str) -> Ino:
            node = tree.find_child(db, parent, name) if parent < FIRST else None
            return node.ino if node is not None else 0

        return RecordedDrive(drive, self._record, child, self._leftovers, reads_from=reads_from)

    def record_echo_process(self, pid: int) -> None:
        """Record the PID of the process that makes requests through the mount for the daemon."""
        self._record.echo_pid = pid

    def keep_mounted(self, ground: MountpointGuard, lock: int, fixed: Sequence[str]) -> None:
        """Store the descriptors with the service manager or holder; `fixed` are the virtual folders at the
        root."""
        self._record.describe(mode=ground.mode, fixed=fixed)
        connection = takeover.duplicate_connection()
        try:
            for name, fd in zip(DESCRIPTORS, (connection, ground.fd, lock, self._record.fd), strict=True):
                sd_notify.store_fd(name, fd)
        except OSError as error:
            log.warning("keep_mounted does not work, the drive ends with its process: %s", error)
            drop_descriptors()
        finally:
            os.close(connection)


def drop_descriptors() -> None:
    """Remove the stored descriptors: the connection then ends with this process."""
    for name in DESCRIPTORS:
        sd_notify.remove_fd(name)


def recover(kept: Mapping[str, int]) -> tuple[dict[str, Any], Survival]:
    """Recover the state of a crashed daemon as an upgrade hands it over.

    Call `drop_unknown_handles` afterwards.  Raises `OSError` and `ValueError` if it is unusable, and
    `UserError` if the drive was unmounted.
    """
    connection = kept[holder.CONNECTION]
    if takeover.has_ended(connection):
        raise errors.UserError("The drive was unmounted while its daemon was dead.", exit_code=0)
    record = CrashRecord(kept["record"])
    echo_pid = _kill_echo_process(record.echo_pid)
    found = resent.read_unanswered(connection, refused_pid=echo_pid)
    _wait_for_exit(echo_pid)
    record.echo_pid = 0
    for ino, count in found.forgotten:
        record.count_forget(ino, count)
    leftovers = CrashLeftovers()
    notes = {(note.key, note.pid): note for note in record.requests()}
    for request in found.requests:
        note = notes.get((request.key, request.pid))
        if note is None:
            continue
        if note.fh:
            record.remove_handle(note.fh)  # its answer never arrived
        if note.before:
            leftovers.requests[note.key] = note.before
    record.clear_requests()
    for note in notes.values():
        if note.key in leftovers.requests:
            record.add_request(note)  # in case this process dies, too
    log.warning(
        "the daemon before this one died; going on with %d open handles and %d requests",
        len(record.handles()),
        len(found.requests),
    )
    return _handover_state(record), Survival(record, leftovers)


def _handover_state(record: CrashRecord) -> dict[str, Any]:
    known = list(record.known_inodes())
    top, top_fh = record.highest
    handles = record.handles()
    return {
        "tree": {
            "tree": {
                "inodes": {
                    "lookups": record.lookups(),
                    # The kernel looks every name up again.
                    "denied": [],
                    "news": [],
                    "refreshed": [],
                    "fresh": [],
                },
                "held": known,
                "handles": [one for one in handles if one[0] < FIRST and one[1] < FIRST],
                "files": [],
                "listings": [],
                "asked_for": [],
            },
            "virtual": {"last": top_fh, "files": record.content_sources()},
            "numbers": {"next": top + 1, "real": []},
            "fixed": record.about["fixed"],
            "roots": [fh for fh, ino, flags in handles if flags == -1 and ino == 1],
        },
        "folders": [(fh, ino) for fh, ino, flags in handles if flags == -1],
        "untold": [],
    }


def drop_unknown_handles(state: dict[str, Any], survival: Survival, db: Database) -> None:
    """Drop handles on nodes that no longer exist and mark them as stale; this needs the database."""
    given = state["tree"]["tree"]
    given["handles"] = [one for one in given["handles"] if tree.find(db, one[1]) is not None]
    survival.mark_stale_handles(state)


def _kill_echo_process(pid: int) -> int:
    """Kill the dead daemon's echo process and return its PID, or 0.

    Its requests would now change the drive instead of only announcing changes."""
    try:
        if pid and echo_process.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            return pid
    except OSError:
        pass  # it has exited
    return 0


def _wait_for_exit(pid: int) -> None:
    with suppress(OSError):
        if pid:
            dead = os.pidfd_open(pid)
            try:
                poll = select.poll()
                poll.register(dead, select.POLLIN)
                poll.poll(_EXIT_TIMEOUT_MS)
            finally:
                os.close(dead)
