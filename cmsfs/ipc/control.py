"""Requests and responses of the control socket.

One Unix socket for each account (`config.Paths.socket`, mode 0600), one request a connection.  The
caller writes one request as a line of JSON; the daemon answers with lines of JSON: any number of
`Progress`, then exactly one last line, and closes.

    request                last line                        before it
    Ping                   Pong
    GetStatus              DriveStatus
    Sync                   Done    everything is uploaded   Progress, at least every second
    Stop                   Done    drained and unmounted    Progress, at least every second
    Poll                   Done    remote changes applied
    Retry                  Done    held changes are retried
    Discard                Done    the change is dropped, its contents are kept in a folder
    GetConflicts           Conflicts
    DismissRecovered       Done    they are no longer reported
    Pin, Unpin             Done    with a message for the user
    Free                   Freed   evicted from the cache   Progress, at least every second
    GetPins                PinList
    Copy                   Done    the copy is on the drive Progress, at least every second
    Watch                  DriveStatus, one now, and one every second, until the caller disconnects
    Follow                 DriveSummary, one now, and one after every change
    GetPathStatus          PathStatus
    SearchDrive            FoundItems                    Progress, at least every second
    Pause, Resume          Done
    SetLogLevel            Done
    OpenPage               PageAddress
    Adopt                  Adopted files hidden by the mount Progress, at least every second
    UndoChanges            GuardUndone                   Progress, at least every second
    Upgrade                Done    the next process serves the mount, and soon listens on this socket

Any request may end with `Failure` instead.  Closing the connection cancels a `Sync`, but not a `Stop`.  After
the `Done` of a `Stop` the daemon closes its files and exits; the caller waits for process and mount to go.
The result of a start is not sent over the socket: `cmsfsd --ready-fd N` writes one line to N (`ipc.ready`).

Rule: fields may be added, none is renamed; both sides ignore unknown fields.
"""

import functools
import operator
from typing import Annotated, Any, Literal

import pydantic

from cmsfs.ipc import attention, diagnostics
from cmsfs.ipc.attention import Conflicts as Conflicts
from cmsfs.ipc.outcomes import Adopted as Adopted
from cmsfs.ipc.outcomes import Freed as Freed
from cmsfs.ipc.outcomes import GuardUndone as GuardUndone
from cmsfs.ipc.outcomes import PageAddress as PageAddress
from cmsfs.ipc.outcomes import PinList as PinList
from cmsfs.ipc.searching import FoundItems as FoundItems
from cmsfs.ipc.summary import DriveSummary as DriveSummary
from cmsfs.models.base import DEFERRED

# A status lists at most this many ops; the others are only counted.
MAX_OPS = 50


class _Message(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


# -- requests ---------------------------------------------------------------------------------------


class Request(_Message):
    """Base of all requests; `kind` discriminates them (`daemon/control/commands.py`)."""


class Ping(Request):
    """Ask whether the daemon is running, and for its mount."""

    kind: Literal["ping"] = "ping"


class GetStatus(Request):
    kind: Literal["status"] = "status"


class Sync(Request):
    """Upload everything now, without settle time, and report when it is done."""

    kind: Literal["sync"] = "sync"


class Stop(Request):
    """Unmount, upload pending changes within the time limit, and exit.

    If programs have files open, the drive answers `Failure` and keeps running, unless `force`.
    """

    kind: Literal["stop"] = "stop"
    drain_seconds: float | None = None  # None: from the settings
    force: bool = False


class Poll(Request):
    """Poll for remote changes now; `full`: by comparing the whole tree with the service."""

    kind: Literal["poll"] = "poll"
    full: bool = False


class Retry(Request):
    """Retry the changes that the service rejected: those of the item at `path`, or all."""

    kind: Literal["retry"] = "retry"
    path: str | None = None  # relative to the mountpoint, as shown in a status


class Discard(Request):
    """Drop the rejected changes of the item at `path` and revert it to the service's state; contents that
    only this machine has are kept in a folder, named in the `message` of the `Done`."""

    kind: Literal["discard"] = "discard"
    path: str


class GetConflicts(Request):
    kind: Literal["conflicts"] = "conflicts"


class DismissRecovered(Request):
    """Stop reporting the recovered files of `GetConflicts`: the user has seen them."""

    kind: Literal["dismiss-recovered"] = "dismiss-recovered"


class Pin(Request):
    """Keep the item at `path` available offline, with everything below it.

    Rejected if the disk would be left with less free space than the settings require, as far as known.
    """

    kind: Literal["pin"] = "pin"
    path: str


class Unpin(Request):
    """End a pin; the contents stay in the cache until they are evicted for space."""

    kind: Literal["unpin"] = "unpin"
    path: str


class Free(Request):
    """Evict the cached contents of the item at `path` and of everything below it, except for contents that
    are not uploaded, pinned or in use.  `unpin`: end their pins as well."""

    kind: Literal["free"] = "free"
    path: str
    unpin: bool = False


class Copy(Request):
    """Have the service copy the item at `path` into a folder, or to a new name.

    The `message` of the `Done` is the path of the copy.  Refused without a network.
    """

    kind: Literal["copy"] = "copy"
    path: str
    to: str


class GetPins(Request):
    """List the pinned items with their progress."""

    kind: Literal["pins"] = "pins"


class Watch(Request):
    """Stream the status, every second."""

    kind: Literal["watch"] = "watch"


class Follow(Request):
    """Stream a summary of the drive, now and after every change."""

    kind: Literal["follow"] = "follow"


class GetPathStatus(Request):
    kind: Literal["path"] = "path"
    path: str


class SearchDrive(Request):
    """Search as `.search` does, in the query language of `cmsfs.query`; `in:` takes a path with slashes
    here."""

    kind: Literal["search"] = "search"
    query: str
    limit: int = 50


class Pause(Request):
    """Stop all background traffic for `seconds`, or until `Resume`; requests that programs wait for go on."""

    kind: Literal["pause"] = "pause"
    seconds: float | None = None


class Resume(Request):
    kind: Literal["resume"] = "resume"


class SetLogLevel(Request):
    """Set the log level until the daemon exits."""

    kind: Literal["log-level"] = "log-level"
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class Adopt(Request):
    """Move files into the drive that lie in the mountpoint's directory, hidden by the mount."""

    kind: Literal["adopt"] = "adopt"


class Upgrade(Request):
    """Hand the mounted drive over to a process of the version that is installed now."""

    kind: Literal["upgrade"] = "upgrade"


class OpenPage(Request):
    """Serve the drive's web page on loopback, for a browser that is opened now.

    `section` is one of the sections in `daemon/ui/server.py`, for the item at `path` if given.
    """

    kind: Literal["open-page"] = "open-page"
    section: str = ""
    path: str = ""


class DecideOffers(Request):
    """Accept or decline these offers, given by id or name."""

    kind: Literal["offers"] = "offers"
    words: list[str]
    accept: bool


class DecideMissing(Request):
    """Decide whether items missing at the service are deleted here, too, or stay for now."""

    kind: Literal["missing"] = "missing"
    remove: bool


class AllowChanges(Request):
    """Confirm that the changes the guard noticed were intended: upload the held ones."""

    kind: Literal["allow-changes"] = "allow-changes"


class UndoChanges(Request):
    """Undo the changes that the guard noticed: they were not intended."""

    kind: Literal["undo-changes"] = "undo-changes"
    dry_run: bool = False  # only report what would be done


# -- answers ----------------------------------------------------------------------------------------


class QueueStatus(_Message):
    """The journal: counts of all ops, and the first ones (held, running, then oldest first)."""

    waiting: int = 0
    running: int = 0
    held: int = 0
    bytes_pending: int = 0
    ops: list[attention.PendingChange] = []  # at most MAX_OPS

    @property
    def pending(self) -> int:
        """Ops that need no user action; held ones do."""
        return self.waiting + self.running


class PathStatus(_Message):
    """The sync status of one item."""

    kind: Literal["path"] = "path"
    path: str
    type: str  # file, folder, web_link
    sync: str  # synced, waiting, uploading, "held: " and the reason, or local
    pinned: str = ""  # the path of the pinned item at or above it
    conflict: bool = False  # whether it is a conflict copy
    owner: str = ""  # the owner, if not this account
    favorite: bool = False  # whether it is among the account's favorites, as far as known
    size: int = 0  # of a file
    cached_bytes: int = 0  # of these, in the cache

    @property
    def is_online_only(self) -> bool:
        return self.size > 0 and not self.cached_bytes


# "stopping" begins with the request to stop, or when somebody else has unmounted the drive.
Stage = Literal["starting", "mounted", "stopping"]


class Pong(_Message):
    kind: Literal["pong"] = "pong"
    stage: Stage = "mounted"
    pid: int
    version: str
    account: str
    mountpoint: str


class DriveStatus(_Message):
    """Everything that `cmsfs status` shows."""

    kind: Literal["status"] = "status"
    account: str
    profile: str  # its title
    mountpoint: str
    pid: int
    version: str
    started: pydantic.AwareDatetime
    installed: str = ""  # a newer installed version, in use after a restart
    health: diagnostics.HealthStatus
    queue: QueueStatus = QueueStatus()
    cache: diagnostics.CacheStatus = diagnostics.CacheStatus()
    listing: diagnostics.ListingStatus = diagnostics.ListingStatus()
    pins: diagnostics.Pinning = diagnostics.Pinning()
    budget: diagnostics.SchedulerStatus = diagnostics.SchedulerStatus()
    gauges: diagnostics.Gauges = diagnostics.Gauges()
    local: diagnostics.LocalStatus = diagnostics.LocalStatus()
    hidden: diagnostics.HiddenFiles = diagnostics.HiddenFiles()
    troubles: diagnostics.Troubles = diagnostics.Troubles()
    requests: dict[str, int] = {}  # requests to the service since the start, by kind: search, upload, ...
    recovered: int = 0  # recovered files outside the drive that the user has not seen yet
    offers: int = 0  # shared items that the user has not accepted or declined
    missing: int = 0  # items of a mass deletion at the service that awaits the user's decision
    guard: attention.GuardNotice | None = None  # why uploads are held until the user decides
    disk: list[str] = []  # what fails for lack of space on this machine's disks
    last_poll: pydantic.AwareDatetime | None = None  # the last successful poll for remote changes


class Progress(_Message):
    """The progress of a request."""

    kind: Literal["progress"] = "progress"
    pending: int  # remaining ops, without held ones
    held: int = 0
    bytes_pending: int = 0
    message: str = ""  # what is happening, if not uploading: "offline, trying again"


class Done(_Message):
    """The request is done; changes that are `held` or still `pending` stay in the journal."""

    kind: Literal["done"] = "done"
    pending: int = 0  # after a Stop that hit its time limit, or a Sync while files are open for writing
    held: int = 0
    message: str = ""


class Failure(_Message):
    """The request could not be carried out."""

    kind: Literal["failure"] = "failure"
    message: str  # one sentence
    exit_code: int = 1


_States = Pong | DriveStatus | DriveSummary | Conflicts | PinList | PageAddress | PathStatus
_Results = _States | FoundItems | Freed | Adopted | GuardUndone
Answer = Annotated[_Results | Progress | Done | Failure, pydantic.Field(discriminator="kind")]

_REQUESTS: Any = functools.reduce(operator.or_, Request.__subclasses__())
_requests: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(
    Annotated[_REQUESTS, pydantic.Field(discriminator="kind")], config=DEFERRED
)
_answers: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Answer, config=DEFERRED)


def encode(message: pydantic.BaseModel) -> bytes:
    """Encode a message as a line of JSON."""
    return message.model_dump_json().encode() + b"\n"


def parse_request(line: bytes) -> Request:
    """Parse a line as a request.  Raises `pydantic.ValidationError`."""
    request: Request = _requests.validate_json(line)
    return request


def parse_answer(line: bytes) -> Answer:
    """Parse a line as an answer.  Raises `pydantic.ValidationError`."""
    answer: Answer = _answers.validate_json(line)
    return answer
