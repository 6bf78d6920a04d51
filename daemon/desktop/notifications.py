"""Desktop notifications of problems: conflicts, rejected changes, an expired login, a full disk.

Checks for each kind of problem every few seconds; one that is new, or has grown, is shown as a notification.
There is one notification per kind, which the next one replaces, and at most one every few minutes.

Rule: file names are shown only to the user, never logged.
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

# Minimum interval between notifications of one kind, unless the problem was solved in between.
REPEAT_SECONDS = 15 * 60.0
# A problem counts as solved after this time without it: an unstable connection is one problem.
CALM_SECONDS = 60.0

# The disk is nearly full if the free space exceeds `keep_free_bytes` by less than this fraction.
NEARLY_FULL_MARGIN = 0.1

Show = Callable[..., Awaitable[int | None]]


async def _show(summary: str, body: str, *, replaces: int = 0, urgency: str = "normal") -> int | None:
    from cmsfs.ipc import notification_bus  # loads the D-Bus libraries on first use

    return await notification_bus.show(summary, body, replaces=replaces, urgency=urgency)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A notification; `count` grows when more of the same happens."""

    summary: str
    body: str
    count: int = 1
    urgency: str = "normal"


@dataclass(slots=True)
class _LastShown:
    number: int = 0
    count: int = 0
    at: float = float("-inf")
    last_seen: float = float("-inf")


class Notifications:
    """The agent that shows notifications.

    `problem` returns why pinned items cannot be downloaded, or ""; `conflicts` the number of conflict copies
    so far and the name of the last one; `returned` the number of rejected deletions and a sentence about the
    last one; `shared` the same for newly shared items; `guard` the guard's pending question.
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
        self._shown_by_kind: dict[str, _LastShown] = {}

    async def run(self) -> None:
        """Show notifications of new problems until cancelled."""
        if not self._settings.notifications:
            return
        while True:
            await self.look()
            await trio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Check all kinds of problems once."""
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
            shown = self._shown_by_kind.setdefault(kind, _LastShown())
            if (trouble := find()) is not None:
                await self._notify(shown, trouble)
            elif trio.current_time() - shown.last_seen > CALM_SECONDS:
                shown.count, shown.at = 0, float("-inf")

    async def _notify(self, shown: _LastShown, trouble: Trouble) -> None:
        now = trio.current_time()
        shown.last_seen = now
        if trouble.count <= shown.count or now - shown.at < REPEAT_SECONDS:
            return
        shown.count, shown.at = trouble.count, now
        number = await self._show(
            trouble.summary, trouble.body, replaces=shown.number, urgency=trouble.urgency
        )
        shown.number = number or 0

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
        if left >= self._settings.keep_free_bytes * (1 + NEARLY_FULL_MARGIN):
            return None
        return Trouble(
            "The disk is nearly full",
            f"{left / 1e9:.1f} GB are free on the disk that holds pending uploads.",
            urgency="critical",
        )
