"""Items that need attention, on the control socket.

Rule: as in `ipc.control`, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


class ConflictCopyStatus(_Part):
    """A conflict copy: our version of a file whose name somebody else's version kept."""

    path: str
    original: str  # the item that has the name now; "" if none has it any more
    modified: pydantic.AwareDatetime


class RecoveredFile(_Part):
    """A file outside the drive: contents that were written on the drive and no longer have a place there."""

    path: str  # on this machine
    bytes: int
    modified: pydantic.AwareDatetime


class Missing(_Part):
    """A mass deletion at the service that awaits the user's decision."""

    items: int
    asked: pydantic.AwareDatetime  # since when the user has been asked
    paths: list[str] = []  # the first few of the topmost missing items


class PendingChange(_Part):
    """A local change that has not reached the service yet."""

    seq: int
    kind: str  # as the journal names it: create, replace, mkdir, move, trash, touch
    path: str  # below the mountpoint
    state: Literal["waiting", "running", "held"]
    attempts: int = 0
    error: str = ""  # why the last attempt failed, or why it is held
    size: int = 0  # bytes to upload; 0 for a change without content
    sent: int = 0  # bytes of these sent so far, while it runs


class GuardProgram(_Part):
    """A program that has changed many files."""

    name: str  # as the kernel reports it
    pid: int  # of its latest process
    files: int  # that it changed


class GuardNotice(_Part):
    """Programs have damaged or deleted many files in a short time; changes are held until the user decides
    whether that was intended."""

    since: pydantic.AwareDatetime  # a moment before the first of these changes
    spoiled: int = 0  # files that were encrypted, or got an unusual suffix
    deleted: int = 0
    suffix: str = ""
    folder: str = "/"  # the common parent of all of them
    programs: list[GuardProgram] = []
    waiting: int = 0  # changes that are held
    held: list[PendingChange] = []  # at most control.MAX_OPS of these

    @property
    def sentence(self) -> str:
        """The notice as a sentence."""
        done = []
        if self.spoiled:
            ending = f" (now .{self.suffix})" if self.suffix else ""
            done.append(f"encrypted or renamed {self.spoiled:,} files{ending}")
        if self.deleted:
            done.append(f"deleted or emptied {self.deleted:,} files")
        names = [one.name for one in self.programs if one.name]
        who = " and ".join(names[:2]) or "A program"
        return f"{who} has {' and '.join(done) or 'changed many files'} below {self.folder} in a short time."


class OfferStatus(_Part):
    """A share that the user has not accepted yet."""

    type: str  # file, folder, web_link
    id: str
    name: str
    owner: str
    declined: bool = False


class Conflicts(_Part):
    """Everything that awaits the user's decision."""

    kind: Literal["conflicts"] = "conflicts"
    recovered: list[RecoveredFile] = []
    copies: list[ConflictCopyStatus] = []
    missing: Missing | None = None
    guard: GuardNotice | None = None
    offers: list[OfferStatus] = []
    held: list[PendingChange] = []  # at most control.MAX_OPS
    stuck: list[PendingChange] = []  # failing for a minute or more, still being retried
