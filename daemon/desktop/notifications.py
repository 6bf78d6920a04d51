"""Which events are shown as desktop notifications: conflicts, refused changes, an expired login, a full disk.

Every few seconds each of these is looked at; one that is new, or has grown, becomes a notification of the
desktop.  Of one kind there is one at a time, which the next one replaces, and not more often than every few
minutes, however much goes on.

Rule: names are shown to the person whose files they are, and nobody else: never logged.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from cmsfs import config
from cmsfs.ipc.attention import GuardNotice
from cmsfs.journal import queue
from cmsfs.replica import tree
from cmsfs.replica.merge import mass_deletions
from cmsfs.sqlite import Database
from daemon.core.health import Health, HealthState

LOOK_SECONDS = 3.0

# A person who was told is not told again for so long, unless all was well in between.
REPEAT_SECONDS = 15 * 60.0
# And all is well only when it was for a while: a connection that comes and goes is one trouble.
CALM_SECONDS = 60.0

# The disk is nearly full when so much more than what is to be left free is left.
NEARLY = 0.1

Show = Callable[..., Awaitable[int | None]]


async def _show(summary: str, body: str, *, replaces: int = 0, urgency: str = "normal") -> int | None:
    from cmsfs.ipc import notification_bus  # the libraries of the bus are loaded with the first

    return await notification_bus.show(summary, body, replaces=replaces, urgency=urgency)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One notification; `count` grows when more of the same happens."""

    summary: str
    body: str
    count: int = 1
    urgency: str = "normal"


@dataclass(slots=True)
class _Told:
    number: int = 0
    count: int = 0
    at: float = float("-inf")
    last_seen: float = float("-inf")


class Notifications:
    """The agent that shows notifications.

    `problem` says what keeps the pinned from being complete, "" if nothing does; `conflicts` how many
    conflict copies were made so far, with the name of the last; `returned` how many deletions were refused,
    with a sentence about the last; `shared` the same of what others share; `guard` what the guard asks.
    """

    def __init__(
        self,
        settings: config.Settings,
        db: Database,
        health: Health,
        problem: Callable[[], str],
        show: Show | None = None,
        conflicts: Callable[[], tuple[int, str]] = lambda: (0, ""),
        returned: Callable[[], tuple[int, str]] = lambda: (0, ""),
        shared: Callable[[], tuple[int, str]] = lambda: (0, ""),
        guard: Callable[[], GuardNotice | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._db = db
        self._health = health
        self._problem = problem
        self._show = show or _show
        self._returned = returned
        self._shared = shared
        self._guard = guard
        self._conflicts = conflicts
        self._told: dict[str, _Told] = {}

    async def run(self) -> None:
        """Tell of what is new, for ever."""
        if not self._settings.notifications:
            return
        while True:
            await self.look()
            await trio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look at everything once."""
        for kind, find in (
            ("conflict", self._find_conflict),
            ("held", self._find_held),
            ("returned", self._find_returned),
            ("shared", self._find_shared),
            ("missing", self._find_missing),
            ("guard", self._find_guard),
            ("login", self._find_login),
            ("disk", self._find_full_disk),
        ):
            told = self._told.setdefault(kind, _Told())
            if (trouble := find()) is not None:
                await self._tell(told, trouble)
            elif trio.current_time() - told.last_seen > CALM_SECONDS:
                told.count, told.at = 0, float("-inf")

    async def _tell(self, told: _Told, trouble: Trouble) -> None:
        now = trio.current_time()
        told.last_seen = now
        if trouble.count <= told.count or now - told.at < REPEAT_SECONDS:
            return
        told.count, told.at = trouble.count, now
        number = await self._show(
            trouble.summary, trouble.body, replaces=told.number, urgency=trouble.urgency
        )
        told.number = number or 0

    def _find_conflict(self) -> Trouble | None:
        count, last = self._conflicts()
        if not count:
            return None
        more = f" and {count - 1} more" if count > 1 else ""
        return Trouble(
            "Conflicting edits",
            f"Your version is kept as {last}{more}. `cmsfs conflicts` lists all.",
            count=count,
        )

    def _find_held(self) -> Trouble | None:
        count = queue.counts(self._db).get("held", 0)
        if not count:
            return None
        op = next(op for op in queue.listed(self._db, 1))
        return Trouble(
            "A change cannot be uploaded" if count == 1 else f"{count} changes cannot be uploaded",
            f"{tree.path(self._db, op.ino)}: {op.error} It is kept locally; see `cmsfs conflicts`.",
            count=count,
        )

    def _find_returned(self) -> Trouble | None:
        count, last = self._returned()
        if not count:
            return None
        return Trouble(
            "A deletion was rejected" if count == 1 else f"{count} deletions were rejected",
            last,
            count=count,
        )

    def _find_shared(self) -> Trouble | None:
        count, last = self._shared()
        if not count:
            return None
        return Trouble("Shared with you", last, count=count)

    def _find_missing(self) -> Trouble | None:
        if (question := mass_deletions.pending_question(self._db)) is None:
            return None
        return Trouble(
            "Many items are missing at the service",
            f"{question.count:,} items are missing there. They are kept locally until you decide: `cmsfs "
            "missing`.",
            count=question.count,
            urgency="critical",
        )

    def _find_guard(self) -> Trouble | None:
        if (notice := self._guard()) is None:
            return None
        return Trouble(
            "Uploads are held: are these changes meant?",
            f"{notice.sentence} Nothing more is uploaded or deleted until you decide: `cmsfs guard`.",
            urgency="critical",
        )

    def _find_login(self) -> Trouble | None:
        if self._health.state is not HealthState.UNAUTHORISED:
            return None
        account = self._settings.account
        return Trouble(
            "The login does not work any more",
            f"{self._health.reason} Your changes are kept locally until then (account {account}).",
            urgency="critical",
        )

    def _find_full_disk(self) -> Trouble | None:
        if problem := self._problem():
            return Trouble("Not enough space for pinned items", problem)
        found = os.statvfs(self._settings.paths.state)
        left = found.f_bavail * found.f_frsize
        if left >= self._settings.keep_free_bytes * (1 + NEARLY):
            return None
        return Trouble(
            "The disk is nearly full",
            f"{left / 1e9:.1f} GB are free on the disk that holds pending uploads.",
            urgency="critical",
        )
