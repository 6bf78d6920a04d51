"""Items that need attention, on the control socket.

Rule: as there, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


class ConflictCopyStatus(_Part):
    """A conflict copy: the bytes that lost a name to what somebody else had put there."""

    path: str
    original: str  # what has the name; "" if nothing has it any more
    modified: pydantic.AwareDatetime


class RecoveredFile(_Part):
    """A file outside the drive with bytes that were written on it and have no place there any more."""

    path: str  # on this machine
    bytes: int
    modified: pydantic.AwareDatetime


class Missing(_Part):
    """A mass deletion at the service that awaits the user's decision."""

    items: int
    asked: pydantic.AwareDatetime  # since when
    paths: list[str] = []  # of the highest of them, the first few


class PendingChange(_Part):
    """A change that the service does not have yet."""

    seq: int
    kind: str  # as the journal names it: create, replace, mkdir, move, trash, touch
    path: str  # below the mountpoint
    state: Literal["waiting", "running", "held"]
    attempts: int = 0
    error: str = ""  # why the last attempt failed, or why it is held
    size: int = 0  # bytes to upload; 0 for a change without content
    sent: int = 0  # of these, while it runs


class GuardProgram(_Part):
    """A program that has changed many files, and how many."""

    name: str  # as the kernel has it
    pid: int  # the last one
    files: int


class GuardNotice(_Part):
    """Many files were spoiled or deleted by programs in a short time; changes are held until a person has
    said whether that was meant."""

    since: pydantic.AwareDatetime  # before the first of it
    spoiled: int = 0  # files that were encrypted, or got a strange suffix
    deleted: int = 0
    suffix: str = ""
    folder: str = "/"  # all of them were below this one
    programs: list[GuardProgram] = []
    waiting: int = 0  # changes that are held
    held: list[PendingChange] = []  # at most control.MAX_OPS of these

    @property
    def said(self) -> str:
        """It in a sentence."""
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
    """What waits for a person."""

    kind: Literal["conflicts"] = "conflicts"
    recovered: list[RecoveredFile] = []
    copies: list[ConflictCopyStatus] = []
    missing: Missing | None = None
    guard: GuardNotice | None = None
    offers: list[OfferStatus] = []
    held: list[PendingChange] = []  # at most control.MAX_OPS
    stuck: list[PendingChange] = []  # tried for a minute or more; they go on being tried
