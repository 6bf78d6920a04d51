"""Collects `cmsfs status` from the agents."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path

import trio

import cmsfs
from cmsfs import config
from cmsfs.cache.blocks import BlockCache
from cmsfs.ipc import attention, control, diagnostics
from cmsfs.journal import queue
from cmsfs.journal.ops import Op, OpKind
from cmsfs.replica import naming, pins, tree
from cmsfs.replica.inodes import Inodes
from cmsfs.replica.merge import local_work, mass_deletions
from cmsfs.replica.nodes import ROOT, Node, NodeKind
from cmsfs.replica.sharing import offers, shares
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs.attrs import sync_status
from daemon.account.pausing import Pausing
from daemon.content.favorites import Favorites
from daemon.core.health import Health
from daemon.core.replaced_files import ReplacedFiles
from daemon.core.request_scheduler import RequestScheduler
from daemon.core.stall_detector import StallDetector
from daemon.fetch.hydrate import Hydrator
from daemon.fetch.pins import Pins
from daemon.listing.crawler import Crawler
from daemon.listing.full_enumeration import FullEnumeration
from daemon.pull.poller import Poller
from daemon.push import former_paths, recovered_files
from daemon.push.dispatcher import Dispatcher
from daemon.push.guard import Guard
from daemon.push.loop_detector import is_looping

# How many of the hidden files below the mount are named.
HIDDEN_NAMES = 3

_STATES: Mapping[str, str] = {"ready": "waiting", "running": "running", "held": "held"}


class StatusReport:
    """Builds the status of the whole drive."""

    def __init__(
        self,
        settings: config.Settings,
        mountpoint: Path,
        db: Database,
        blocks: BlockCache,
        health: Health,
        hydrator: Hydrator,
        push: Dispatcher,
        pull: Poller,
        crawler: Crawler,
        whole: FullEnumeration | None,
        pins: Pins,
        favorites: Favorites,
        pace: RequestScheduler,
        pausing: Pausing,
        inodes: Inodes,
        guard: Guard,
        *,
        disk: Callable[[], list[str]],
    ) -> None:
        self._disk = disk
        self._inodes = inodes
        self._guard = guard
        self._pace = pace
        self._pausing = pausing
        self._pins = pins
        self._favorites = favorites
        self._settings = settings
        self._profile = config.profile(settings)
        self._mountpoint = mountpoint
        self._db = db
        self._blocks = blocks
        self._health = health
        self._hydrator = hydrator
        self._push = push
        self._pull = pull
        self._crawler = crawler
        self._whole = whole
        # Returns the files in the mountpoint, below the drive; set once it is mounted.
        self.hidden: Callable[[], list[str]] = list
        # The phase of the life cycle, as the drive reports it.
        self.stage: control.Stage = "starting"
        self._governors: list[StallDetector] = [pull.governor]
        self._started = clock.datetime_now(UTC)
        self._files = ReplacedFiles()

    def pong(self) -> control.Pong:
        return control.Pong(
            stage=self.stage,
            pid=os.getpid(),
            version=cmsfs.__version__,
            account=self._settings.place,
            mountpoint=str(self._mountpoint),
        )

    async def whole(self) -> control.DriveStatus:
        """Return the complete status."""
        health = diagnostics.HealthStatus(
            state=self._health.state.value,
            since=self._health.since,
            reason=self._health.reason,
            paused_until=self._pausing.until,
        )
        return control.DriveStatus(
            account=self._settings.place,
            profile=self._profile.title,
            mountpoint=str(self._mountpoint),
            pid=os.getpid(),
            version=cmsfs.__version__,
            started=self._started,
            installed=self._files.installed(),
            health=health,
            queue=self.queue(),
            cache=diagnostics.CacheStatus(
                used_bytes=self._blocks.usage(), limit_bytes=self._settings.cache_bytes
            ),
            listing=await self._listing(),
            pins=await self._pins.progress(),
            gauges=self._gauges(),
            budget=diagnostics.SchedulerStatus(
                held_up_seconds=self._pace.held_up,
                queues={
                    name: diagnostics.Turns(waiting=waiting, running=running)
                    for name, (waiting, running) in self._pace.queues.items()
                },
            ),
            local=await self._local(),
            hidden=self._hidden(),
            troubles=self._troubles(),
            requests=dict(self._health.requests),
            disk=self._disk(),
            recovered=len(recovered_files.waiting(self._settings.paths.recovered)),
            offers=sum(one.state is offers.OfferState.WAITING for one in offers.undecided(self._db)),
            missing=question.count if (question := mass_deletions.pending_question(self._db)) else 0,
            guard=self.guard(),
            last_poll=self._pull.last,
        )

    def guard(self) -> attention.GuardNotice | None:
        """Return the question of the guard, with the number of changes that it holds."""
        if (notice := self._guard.notice) is None:
            return None
        held = []
        for op in queue.listed(self._db, control.MAX_OPS):
            node = tree.find(self._db, op.ino)
            path = former_paths.of(self._db, node) if node is not None else ""
            held.append(self._op(op).model_copy(update={"path": path}))
        return notice.model_copy(update={"waiting": sum(queue.counts(self._db).values()), "held": held})

    def _gauges(self) -> diagnostics.Gauges:
        lookups, opened = self._inodes.totals()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return diagnostics.Gauges(
            tasks=trio.lowlevel.current_statistics().tasks_living,
            descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
            lookups=lookups,
            opened=opened,
            doubts=local_work.count_deferred(self._db),
        )

    def of(self, node: Node) -> control.PathStatus:
        """Return the status of one item."""
        holder = pins.holder(self._db, node.ino)
        found = control.PathStatus(
            path=tree.path(self._db, node.ino),
            type=node.kind.value,
            sync=sync_status.sync(self._db, node),
            pinned="" if holder is None else tree.path(self._db, holder),
            conflict=naming.original_name(node.name) is not None,
            owner=shares.owner(self._db, node.ino),
            favorite=self._favorites.is_one(node),
        )
        if node.kind is not NodeKind.FILE:
            return found
        cached = sync_status.cached(self._blocks, node) or 0
        return found.model_copy(update={"size": node.size, "cached_bytes": cached})

    def queue(self) -> control.QueueStatus:
        """Return what is to be uploaded."""
        counts = queue.counts(self._db)
        return control.QueueStatus(
            waiting=counts.get("ready", 0),
            running=counts.get("running", 0),
            held=counts.get("held", 0),
            bytes_pending=queue.unsent_bytes(self._db),
            ops=[self._op(op) for op in queue.listed(self._db, control.MAX_OPS)],
        )

    def downloads(self) -> list[tuple[str, int, int]]:
        """Return the files being downloaded: path, bytes cached, size."""
        found = []
        for sha1 in sorted(self._hydrator.coming()):
            inos = tree.nodes_with_content(self._db, sha1)
            node = tree.find(self._db, inos[0]) if inos else None
            if node is not None:
                here = sync_status.cached(self._blocks, node) or 0
                found.append((tree.path(self._db, node.ino), here, node.size))
        return found

    def held(self) -> list[attention.PendingChange]:
        """Return the changes that wait for the user's decision."""
        return [self._op(op) for op in queue.listed(self._db, control.MAX_OPS) if op.state == "held"]

    def tired(self) -> list[attention.PendingChange]:
        """Return the changes that are stuck for a minute or more without a refusal."""
        if not self._health.may_work:
            return []  # the status already shows that the service is unreachable
        return [self._op(op) for op in queue.failed(self._db) if is_looping(op)][: control.MAX_OPS]

    def _op(self, op: Op) -> attention.PendingChange:
        node = tree.find(self._db, op.ino)
        return attention.PendingChange(
            seq=op.seq,
            kind=op.kind,
            path=tree.path(self._db, op.ino),
            state=_STATES[op.state],
            attempts=op.attempts,
            error=op.error or "",
            size=node.size if node is not None and op.kind is OpKind.UPLOAD else 0,
            sent=self._push.sent(op.seq),
        )

    def _troubles(self) -> diagnostics.Troubles:
        left_out = self._pull.left_out()
        found = [governor.stalled for governor in self._governors]
        stalled = [
            diagnostics.StalledLoop(name=one.name, seconds=one.seconds, reason=one.reason)
            for one in found
            if one
        ]
        if tired := self.tired():
            reason = f"{tired[0].error} `cmsfs conflicts` lists them, `cmsfs discard` discards one."
            stalled.append(diagnostics.StalledLoop(name=f"the upload of {tired[0].path}", reason=reason))
        return diagnostics.Troubles(
            stalled=stalled,
            left_out=left_out[:HIDDEN_NAMES],
            left_out_items=len(left_out),
            came_wrong=[
                tree.path(self._db, ino)
                for sha1 in self._hydrator.corrupt_contents()
                for ino in tree.nodes_with_content(self._db, sha1)
            ][:HIDDEN_NAMES],
        )

    def _hidden(self) -> diagnostics.HiddenFiles:
        names = self.hidden()
        return diagnostics.HiddenFiles(items=len(names), names=names[:HIDDEN_NAMES])

    async def _local(self) -> diagnostics.LocalStatus:
        sql = "SELECT count(*), coalesce(sum(size), 0) FROM node INDEXED BY node_local WHERE local"
        sql += " AND local <> 2 AND parent IS NOT NULL"  # otherwise SQLite chooses the larger index
        items, size = await self._db.query(lambda conn: tuple(conn.execute(sql).fetchone()))
        return diagnostics.LocalStatus(items=items, bytes=size)

    async def _listing(self) -> diagnostics.ListingStatus:
        sql = "SELECT count(*) FROM node WHERE parent IS NOT NULL"
        items = await self._db.query(lambda conn: int(conn.execute(sql).fetchone()[0]))
        if self._hydrator.is_listing or self._crawler.is_running:
            plan = self._whole.plan if self._whole is not None else None
            total, left = (plan.total, len(plan.windows)) if plan is not None else (0, 0)
            return diagnostics.ListingStatus(state="running", items=items, total=total, windows_left=left)
        known = tree.is_listed(self._db, ROOT)
        return diagnostics.ListingStatus(state="complete" if known else "unknown", items=items)
