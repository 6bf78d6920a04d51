"""A drive that stays mounted while its daemon dies (`keep_mounted`).

Whoever starts daemons keeps four descriptors: the connection to the kernel, the folder below the mount, the
lock of the account, and the record of what the kernel and programs hold.  That is the service manager, or a
small process of our own (`holder`).  The next daemon goes on from them as after an upgrade.

Rule: what cannot be taken over is let go, and the drive is mounted anew as after any crash.
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
from daemon.survival.recorded import RecordedDrive, Remains

log = logging.getLogger(__name__)

NAMES = (holder.CONNECTION, "ground", "lock", "record")

# How long a helper of the dead daemon may take to die of our answer.
_DYING_MS = 2000


def is_possible() -> bool:
    """Whether this kernel sends requests once more, and can be told to ask for every name."""
    return takeover.can_resend() and takeover.can_doubt()


def become_holder(address: Path, ready: int | None) -> NoReturn:
    """Run this command line in another process, which this one holds the drive for from now on.

    `ready`: the descriptor by which that tells whoever waits for it.  Raises `OSError`."""
    if ready is not None:
        os.set_inheritable(ready, True)
    python = [sys.executable, "-I" if sys.flags.isolated else "-P"]
    command = [*python, "-m", "daemon", *sys.argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-I", "-S", holder.__file__, str(address), *command])


class Survival:
    """The record of this drive, and what the daemon before it has left."""

    def __init__(self, record: CrashRecord, remains: Remains) -> None:
        self._record = record
        self._remains = remains

    @classmethod
    def begun(cls) -> "Survival | None":
        """Of a drive that is not mounted yet; None, and a line in the log, where it cannot be."""
        if not is_possible():
            log.warning("keep_mounted needs Linux 6.16 or newer; the drive ends with its process")
        elif not sd_notify.keeps_descriptors():
            log.warning("keep_mounted needs systemd 254 or newer; the drive ends with its process")
        else:
            try:
                return cls(CrashRecord.create(), Remains())
            except OSError as error:
                log.warning("keep_mounted does not work, the drive ends with its process: %s", error)
        return None

    @classmethod
    def taken_over(cls, fd: int, state: dict[str, Any]) -> "Survival | None":
        """Of a drive that was handed over with its record; None if that is of another kind."""
        try:
            survival = cls(CrashRecord(fd), Remains())
        except ValueError as error:
            log.warning("the drive ends with its process from now on: %s", error)
            let_go()
            return None
        survival.note_unusable(state)
        return survival

    def note_unusable(self, state: dict[str, Any]) -> None:
        """Handles that are recorded and not in the state cannot be used any more."""
        tree_handles, virtual = state["tree"]["tree"]["handles"], state["tree"]["virtual"]["files"]
        usable = {fh for fh, *_ in (*tree_handles, *virtual)}
        self._remains.handles = {fh for fh, _, _ in self._record.handles() if fh not in usable}

    @property
    def mode(self) -> int:
        """Of the folder below the drive."""
        return int(self._record.about["mode"])

    @property
    def fd(self) -> int:
        """The record's descriptor."""
        return self._record.fd

    def over(
        self, drive: FilesystemPort, db: Database, *, reads_from: Callable[[int], object]
    ) -> RecordedDrive:
        """The drive, of which everything is written down from now on; `reads_from` says what an open virtual
        file is read from."""

        def child(parent: Ino, name: str) -> Ino:
            node = tree.find_child(db, parent, name) if parent < FIRST else None
            return node.ino if node is not None else 0

        return RecordedDrive(drive, self._record, child, self._remains, reads_from=reads_from)

    def note_helper(self, pid: int) -> None:
        """This process asks through the mount on the daemon's behalf."""
        self._record.helper = pid

    def keep_mounted(self, ground: MountpointGuard, lock: int, fixed: Sequence[str]) -> None:
        """Have all of it kept from now on; `fixed` are the virtual folders at the root."""
        self._record.describe(mode=ground.mode, fixed=fixed)
        connection = takeover.duplicate()
        try:
            for name, fd in zip(NAMES, (connection, ground.fd, lock, self._record.fd), strict=True):
                sd_notify.keep(name, fd)
        except OSError as error:
            log.warning("keep_mounted does not work, the drive ends with its process: %s", error)
            let_go()
        finally:
            os.close(connection)


def let_go() -> None:
    """Nothing is kept any more: the connection ends with this process."""
    for name in NAMES:
        sd_notify.drop(name)


def revived(kept: Mapping[str, int]) -> tuple[dict[str, Any], Survival]:
    """What a dead daemon has left, as one that hands the drive over says it; see `complete`.

    Raises `OSError` and `ValueError` if it is of no use, and `UserError` if the drive was unmounted."""
    connection = kept[holder.CONNECTION]
    if takeover.has_ended(connection):
        raise errors.UserError("The drive was unmounted while its daemon was dead.", exit_code=0)
    record = CrashRecord(kept["record"])
    helper = _ended_helper(record.helper)
    found = resent.look(connection, refused=helper)
    _await_end(helper)
    record.helper = 0
    for ino, count in found.forgotten:
        record.forgotten(ino, count)
    remains = Remains()
    notes = {(note.key, note.pid): note for note in record.notes()}
    for request in found.requests:
        note = notes.get((request.key, request.pid))
        if note is None:
            continue
        if note.fh:
            record.closed(note.fh)  # nobody has heard of it
        if note.before:
            remains.requests[note.key] = note.before
    record.forget_requests()
    for note in notes.values():
        if note.key in remains.requests:
            record.begun(note)  # should this process die, too
    log.warning(
        "the daemon before this one died; going on with %d open handles and %d requests",
        len(record.handles()),
        len(found.requests),
    )
    return _state(record), Survival(record, remains)


def _state(record: CrashRecord) -> dict[str, Any]:
    known = list(record.known())
    top, top_fh = record.highest
    handles = record.handles()
    return {
        "tree": {
            "tree": {
                "inodes": {
                    "lookups": record.lookups(),
                    # Every name is asked for again.
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
            "virtual": {"last": top_fh, "files": record.contents()},
            "numbers": {"next": top + 1, "real": []},
            "fixed": record.about["fixed"],
            "roots": [fh for fh, ino, flags in handles if flags == -1 and ino == 1],
        },
        "folders": [(fh, ino) for fh, ino, flags in handles if flags == -1],
        "untold": [],
    }


def complete(state: dict[str, Any], survival: Survival, db: Database) -> None:
    """What only the tree knows: handles on what is no more cannot be used any more."""
    given = state["tree"]["tree"]
    given["handles"] = [one for one in given["handles"] if tree.find(db, one[1]) is not None]
    survival.note_unusable(state)


def _ended_helper(pid: int) -> int:
    """End the dead daemon's helper, which would change the drive where it only meant to tell of changes."""
    try:
        if pid and echo_process.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            return pid
    except OSError:
        pass  # it is gone
    return 0


def _await_end(pid: int) -> None:
    with suppress(OSError):
        if pid:
            dead = os.pidfd_open(pid)
            try:
                poll = select.poll()
                poll.register(dead, select.POLLIN)
                poll.poll(_DYING_MS)
            finally:
                os.close(dead)
