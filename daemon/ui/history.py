"""Saves recent events and the traffic of the last day across restarts.

Both are small lists in memory; the file is rewritten as a whole some time after a change.  Losing the latest
entries in a crash is acceptable.

Rule: while nothing happens, nothing is written.
"""

import json
import logging
import os
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trio

from cmsfs.journal import queue
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database
from daemon.core.happenings import Happening, Happenings
from daemon.core.health import Health

log = logging.getLogger(__name__)

# Delay before writing, because events come in bursts.
REST_SECONDS = 10.0

SAMPLE_SECONDS = 300.0
DAY_SECONDS = 86400


@dataclass(frozen=True, slots=True)
class TrafficSample:
    """The bytes transferred within some minutes, and the pending changes at their end."""

    at: int
    requests: int
    up: int
    down: int
    waiting: int


class History:
    """The agent that saves and restores both."""

    def __init__(self, file: Path, happenings: Happenings, health: Health, db: Database) -> None:
        self._file = file
        self.happenings = happenings
        self._health = health
        self._db = db
        self.samples: deque[TrafficSample] = deque(maxlen=int(DAY_SECONDS / SAMPLE_SECONDS))
        self._before = (0, 0, 0)

    async def run(self) -> None:
        """Save events and samples until cancelled."""
        await self.load()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sample)
            try:
                while True:
                    await self.happenings.told.wait()
                    await trio.sleep(REST_SECONDS)
                    await self.keep()
            finally:
                if self.happenings.told.is_set or self.happenings.fetched:
                    with trio.CancelScope(shield=True):
                        await self.keep()

    async def keep(self) -> None:
        """Write the current lists to the file."""
        self.happenings.take_downloads()
        self.happenings.told.clear()
        found = {
            "happenings": [one.as_dict() for one in self.happenings.recent],
            "samples": [asdict(one) for one in self.samples],
        }
        try:
            await threads.run_sync(_write, self._file, found)
        except OSError as error:
            log.warning("the history cannot be kept: %s", error.strerror)

    async def load(self) -> None:
        """Load the saved lists; start with empty ones if the file is unreadable."""
        try:
            found = await threads.run_sync(_read, self._file)
            kept = [Happening(**one) for one in found["happenings"]]
            samples = [TrafficSample(**one) for one in found["samples"]]
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError):
            log.info("the history cannot be read and begins anew")
            return
        self.happenings.recent.extendleft(reversed(kept[len(kept) - min(len(kept), self._room) :]))
        since = clock.time() - DAY_SECONDS
        self.samples.extend(one for one in samples if one.at > since)

    @property
    def _room(self) -> int:
        return (self.happenings.recent.maxlen or 0) - len(self.happenings.recent)

    async def _sample(self) -> None:
        while True:
            await trio.sleep(SAMPLE_SECONDS)
            self.sample()

    def sample(self) -> None:
        """Record the bytes transferred since the last sample."""
        now = (self._health.requests.total(), self.happenings.bytes_up, self.happenings.bytes_down)
        requests, up, down = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        waiting = queue.counts(self._db).get("ready", 0)
        self.samples.append(TrafficSample(int(clock.time()), requests, up, down, waiting))
        if up or down:
            self.happenings.told.set()


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _write(file: Path, found: Any) -> None:
    new = file.with_name(f"{file.name}.new")
    with open(new, "w", encoding="utf-8", opener=_private) as opened:
        opened.write(json.dumps(found))  # `json.dump` is four times as slow
    new.replace(file)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
