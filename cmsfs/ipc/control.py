"""Requests and responses of the control socket.

One Unix socket for each account (`config.Paths.socket`, mode 0600), one request a connection.  The
caller writes one request as a line of JSON; the daemon answers with lines of JSON: any number of
`Progress`, then exactly one last line, and closes.

    request                last line                        before it
    Ping                   Pong
    GetStatus              DriveStatus
    Sync                   Done    everything is uploaded   Progress, at least every second
    Stop                   Done    drained and unmounted    Progress, at least every second
    Poll                   Done    remote changes are in
    Retry                  Done    what was held is tried again
    Discard                Done    a change is given up, its bytes are set aside
    GetConflicts           Conflicts
    DismissRecovered       Done    they are told of no more
    Pin, Unpin             Done    with what the person should know
    Free                   Freed   no longer on this disk   Progress, at least every second
    GetPins                PinList
    Copy                   Done    the copy is on the drive Progress, at least every second
    Watch                  DriveStatus, one now, and one after every second, until the caller hangs up
    Follow                 DriveSummary, one now, and one whenever it has changed
    GetPathStatus          PathStatus
    SearchDrive            FoundItems                    Progress, at least every second
    Pause, Resume          Done
    SetLogLevel            Done
    OpenPage               PageAddress
    Adopt                  Adopted what lay below the drive Progress, at least every second
    UndoChanges            GuardUndone                   Progress, at least every second
    Upgrade                Done    the next process serves the mount, and listens here in a moment

Any request may end with `Failure` instead.  A caller that closes the connection ends a `Sync`, not a `Stop`.
After the `Done` of a `Stop` the daemon closes its files and exits; the caller watches process and mount go.
How a start ends is not said over the socket: `cmsfsd --ready-fd N` writes one line to N (`ipc.ready`).

Rule: fields may be added, none is renamed; either side ignores what it does not know.
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

# A status names the ops that a person may want to see; thousands of waiting ones are only counted.
MAX_OPS = 50


class _Message(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


# -- requests ---------------------------------------------------------------------------------------


class Request(_Message):
    """What may be asked: each class below, told apart by its `kind` (`daemon/control/commands.py`)."""


class Ping(Request):
    """Are you there, and which mount is it?"""

    kind: Literal["ping"] = "ping"


class GetStatus(Request):
    kind: Literal["status"] = "status"


class Sync(Request):
    """Upload everything now, without settle time, and say when it is done."""

    kind: Literal["sync"] = "sync"


class Stop(Request):
    """Unmount, upload what is left within the limit, and exit.

    A drive on which programs have files open answers `Failure` and goes on, unless `force`.
    """

    kind: Literal["stop"] = "stop"
    drain_seconds: float | None = None  # None: as the settings say
    force: bool = False


class Poll(Request):
    """Look for remote changes now; `full`: by comparing everything with the service."""

    kind: Literal["poll"] = "poll"
    full: bool = False


class Retry(Request):
    """Try again what the service has refused: of the item at `path`, or everything."""

    kind: Literal["retry"] = "retry"
    path: str | None = None  # below the mountpoint, as a status shows it


class Discard(Request):
    """Give up what the service has refused of the item at `path`, which is then as the service has it; bytes
    that only this machine has are kept in a folder, which the `message` of the `Done` names."""

    kind: Literal["discard"] = "discard"
    path: str


class GetConflicts(Request):
    kind: Literal["conflicts"] = "conflicts"


class DismissRecovered(Request):
    """A person has seen what `GetConflicts` says was recovered: tell of it no more."""

    kind: Literal["dismiss-recovered"] = "dismiss-recovered"


class Pin(Request):
    """Keep the item at `path` here whole, with all that is below it.

    Refused if the disk would have less free than the settings want, as far as that is known.
    """

    kind: Literal["pin"] = "pin"
    path: str


class Unpin(Request):
    """Keep it no longer; its bytes stay in the cache for as long as there is room."""

    kind: Literal["unpin"] = "unpin"
    path: str


class Free(Request):
    """Drop from this disk what is cached of the item at `path`, with all that is below it, but for what the
    service does not have yet, what is pinned and what is in use.  `unpin`: pins on these end as well."""

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
    """What is kept here, and how far that is."""

    kind: Literal["pins"] = "pins"


class Watch(Request):
    """The status, again and again."""

    kind: Literal["watch"] = "watch"


class Follow(Request):
    """The drive in a few words, now and at every change."""

    kind: Literal["follow"] = "follow"


class GetPathStatus(Request):
    kind: Literal["path"] = "path"
    path: str


class SearchDrive(Request):
    """Search as `.search` does, in the words of `cmsfs.query`; an `in:` has slashes here."""

    kind: Literal["search"] = "search"
    query: str
    limit: int = 50


class Pause(Request):
    """No traffic but what a program waits for, for so long, or until `Resume`."""

    kind: Literal["pause"] = "pause"
    seconds: float | None = None


class Resume(Request):
    kind: Literal["resume"] = "resume"


class SetLogLevel(Request):
    """How much is logged, until the daemon ends."""

    kind: Literal["log-level"] = "log-level"
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class Adopt(Request):
    """Bring into the drive what lies in the mountpoint below it."""

    kind: Literal["adopt"] = "adopt"


class Upgrade(Request):
    """Hand the mounted drive to the version that is installed now."""

    kind: Literal["upgrade"] = "upgrade"


class OpenPage(Request):
    """Serve the drive's own page on loopback, for a browser that is opened now.

    `section` is one of those of `daemon/ui/server.py`; of the item at `path`, if one is named.
    """

    kind: Literal["open-page"] = "open-page"
    section: str = ""
    path: str = ""


class DecideOffers(Request):
    """A person accepts these offers, named by their ids or names, or declines them."""

    kind: Literal["offers"] = "offers"
    words: list[str]
    accept: bool


class DecideMissing(Request):
    """A person says whether what is missing at the service is to go here, too, or to stay for now."""

    kind: Literal["missing"] = "missing"
    remove: bool


class AllowChanges(Request):
    """A person says that what the guard has noticed was meant: what is held is sent."""

    kind: Literal["allow-changes"] = "allow-changes"


class UndoChanges(Request):
    """A person says that what the guard has noticed was not meant: it is taken back."""

    kind: Literal["undo-changes"] = "undo-changes"
    dry_run: bool = False  # only say what would be


# -- answers ----------------------------------------------------------------------------------------


class QueueStatus(_Message):
    """The journal: counts of all ops, and the ones worth naming (held, running, then oldest first)."""

    waiting: int = 0
    running: int = 0
    held: int = 0
    bytes_pending: int = 0
    ops: list[attention.PendingChange] = []  # at most MAX_OPS

    @property
    def pending(self) -> int:
        """Ops that will go by themselves; a held one waits for a person."""
        return self.waiting + self.running


class PathStatus(_Message):
    """How one item stands."""

    kind: Literal["path"] = "path"
    path: str
    type: str  # file, folder, web_link
    sync: str  # synced, waiting, uploading, "held: " and why, or local
    pinned: str = ""  # the path of the pinned item that it belongs to
    conflict: bool = False  # it is a conflict copy
    owner: str = ""  # whose it is, if it is somebody else's
    favorite: bool = False  # it is among the account's favorites, as far as is known
    size: int = 0  # of a file
    cached_bytes: int = 0  # of these, here

    @property
    def is_online_only(self) -> bool:
        return self.size > 0 and not self.cached_bytes


# "stopping" begins with the wish to stop, or when somebody else has unmounted the drive.
Stage = Literal["starting", "mounted", "stopping"]


class Pong(_Message):
    kind: Literal["pong"] = "pong"
    stage: Stage = "mounted"
    pid: int
    version: str
    account: str
    mountpoint: str


class DriveStatus(_Message):
    """Everything that `cmsfs status` tells."""

    kind: Literal["status"] = "status"
    account: str
    profile: str  # its title
    mountpoint: str
    pid: int
    version: str
    started: pydantic.AwareDatetime
    installed: str = ""  # the version that was installed over the running one; it waits for a restart
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
    recovered: int = 0  # files outside the drive that wait for a person to look at them
    offers: int = 0  # items that others share, and a person has not decided on
    missing: int = 0  # items that the service does not have any more, and that a person is asked about
    guard: attention.GuardNotice | None = None  # why nothing is sent until a person has decided
    disk: list[str] = []  # what the want of room on this machine's disks keeps from being done
    last_poll: pydantic.AwareDatetime | None = None  # when remote changes were last looked for with success


class Progress(_Message):
    """How far a `Sync`, `Stop`, `Poll` or `Free` has come."""

    kind: Literal["progress"] = "progress"
    pending: int  # ops still to go, held ones not counted
    held: int = 0
    bytes_pending: int = 0
    message: str = ""  # what is happening, if not uploading: "offline, trying again"


class Done(_Message):
    """The request was carried out; what is `held` or still `pending` stays safe in the journal."""

    kind: Literal["done"] = "done"
    pending: int = 0  # after a Stop whose limit ran out, or a Sync while files are open for writing
    held: int = 0
    message: str = ""


class Failure(_Message):
    """The request could not be carried out."""

    kind: Literal["failure"] = "failure"
    message: str  # one sentence
    exit_code: int = 1


_Facts = Pong | DriveStatus | DriveSummary | Conflicts | PinList | PageAddress | PathStatus
_Said = _Facts | FoundItems | Freed | Adopted | GuardUndone
Answer = Annotated[_Said | Progress | Done | Failure, pydantic.Field(discriminator="kind")]

_REQUESTS: Any = functools.reduce(operator.or_, Request.__subclasses__())
_requests: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(
    Annotated[_REQUESTS, pydantic.Field(discriminator="kind")], config=DEFERRED
)
_answers: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Answer, config=DEFERRED)


def encode(message: pydantic.BaseModel) -> bytes:
    """A message as its line."""
    return message.model_dump_json().encode() + b"\n"


def parse_request(line: bytes) -> Request:
    """The request in a line.  Raises `pydantic.ValidationError`."""
    request: Request = _requests.validate_json(line)
    return request


def parse_answer(line: bytes) -> Answer:
    """The answer in a line.  Raises `pydantic.ValidationError`."""
    answer: Answer = _answers.validate_json(line)
    return answer
