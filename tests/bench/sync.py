"""Benchmark of remote changes: how soon they show on the mount, and what an idle drive costs.

`python tests/bench/sync.py`: a service in its own process, a link with a round trip of 40 ms before it, a
drive on it, once for each feed.  Changes of four kinds are made through the API, on the service's side of the
link, at a steady rate; a program that looks at the mount all the time notes when each one shows.  Then
nothing is done, and requests, processor time and memory are counted (`--idle SECONDS`; the service ends a
long poll after 300 seconds, so that less than that says little).  Figures are of this machine and this
moment; nothing here asserts anything.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
import listing
import loading
import trio

FOLDER = "many"


@dataclass(slots=True)
class Change:
    """A remote change, and a check whether the mount shows it."""

    kind: str
    shows: Callable[[], bool]
    made: float = 0.0
    seen: float = 0.0


class Changer:
    """Another client of the service, which makes the changes."""

    def __init__(self, port: str, drive: listing.Drive, folder: str) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self._http.headers.update(drive.token(self._http))
        self._folder = folder
        self._top = drive.top / FOLDER
        self._files: list[tuple[str, str, int]] = []  # id, name, size
        self._count = 0

    def prepare(self, number: int) -> None:
        """Create the files that are changed later."""
        for _ in range(number):
            self._create()

    def change(self) -> Change:
        kind = ("create", "edit", "rename", "delete")[self._count % 4]
        match kind:
            case "create":
                path = self._top / self._create()
                shows = path.exists
            case "edit":
                number, name, size = self._files.pop(0)
                self._upload(f"/api/2.0/files/{number}/content", {}, b"y" * (size + 1))
                path, larger = self._top / name, size + 1
                shows = lambda: os.stat(path).st_size == larger  # noqa: E731
                self._count += 1
            case "rename":
                number, name, _ = self._files.pop(0)
                self._count += 1
                self._ask("PUT", f"/2.0/files/{number}", json={"name": f"renamed {self._count}"})
                shows = (self._top / f"renamed {self._count}").exists
            case _:
                number, name, _ = self._files.pop(0)
                self._count += 1
                self._ask("DELETE", f"/2.0/files/{number}")
                path = self._top / name
                shows = lambda: not path.exists()  # noqa: E731
        return Change(kind, shows, time.monotonic())

    def _create(self) -> str:
        self._count += 1
        name, size = f"file {self._count}", 10 + self._count % 7
        attributes = {"name": name, "parent": {"id": self._folder}}
        found = self._upload("/api/2.0/files/content", attributes, b"x" * size)
        self._files.append((found["entries"][0]["id"], name, size))
        return name

    def _upload(
        self, path: str, attributes: Mapping[str, object], data: bytes
    ) -> dict[str, list[dict[str, str]]]:
        sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        parts = {"attributes": (None, json.dumps(attributes)), "file": ("file", data)}
        found: dict[str, list[dict[str, str]]] = self._ask(
            "POST", path, files=parts, headers={"Content-MD5": sha1}
        ).json()
        return found

    def _ask(self, method: str, path: str, **rest: object) -> httpx.Response:
        answer = self._http.request(method, path, **rest)  # type: ignore[arg-type]
        answer.raise_for_status()
        return answer


class Watcher:
    """Polls the mount for changes that do not show yet."""

    def __init__(self) -> None:
        self._open: list[Change] = []
        self.seen: list[Change] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def expect(self, change: Change) -> None:
        self._open.append(change)

    def finish(self, seconds: float) -> None:
        """Wait until everything shows, up to a limit."""
        deadline = time.monotonic() + seconds
        while self._open and time.monotonic() < deadline:
            time.sleep(0.05)
        self._end.set()
        self._thread.join()

    @property
    def missing(self) -> int:
        return len(self._open)

    def _run(self) -> None:
        while not self._end.wait(0.01):
            for change in list(self._open):
                if change.shows():
                    change.seen = time.monotonic()
                    self.seen.append(change)
                    self._open.remove(change)


def measure_latency(feed: str, drive: listing.Drive, changer: Changer, count: int, rate: float) -> None:
    changer.prepare(count)
    listing.find_one_level(drive.top)
    listing.find_one_level(drive.top / FOLDER)
    time.sleep(10)
    listing.find(drive.top)
    before, watcher = drive.requests(), Watcher()
    due = time.monotonic()
    for _ in range(count):
        watcher.expect(changer.change())
        due += 1 / rate
        time.sleep(max(due - time.monotonic(), 0))
    watcher.finish(60)
    asked = drive.requests() - before
    report(feed, watcher, asked)


def report(feed: str, watcher: Watcher, asked: int) -> None:
    print(
        f"{feed}: {len(watcher.seen)} changes seen, {watcher.missing} not within a minute, {asked} requests"
    )
    for kind in ("create", "edit", "rename", "delete", "all"):
        took = sorted(one.seen - one.made for one in watcher.seen if kind in (one.kind, "all"))
        if took:
            p50, p99 = took[len(took) // 2], took[min(len(took) * 99 // 100, len(took) - 1)]
            print(f"  {kind:8} p50 {p50:6.2f} s   p99 {p99:6.2f} s   longest {took[-1]:6.2f} s", flush=True)


def measure_idle(feed: str, drive: listing.Drive, seconds: float) -> None:
    # The drive counts as idle so long after its last use.
    time.sleep(70)
    status = drive.status()
    before, cpu, began = dict(status["requests"]), listing.processor(status["pid"]), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    spent = listing.processor(status["pid"]) - cpu
    after: dict[str, int] = drive.status()["requests"]
    asked = {name: number - before.get(name, 0) for name, number in after.items()}
    hourly = sum(asked.values()) * 3600 / took
    told = {name: number for name, number in asked.items() if number}
    print(f"{feed}: idle for {took:.0f} s: {told}")
    print(f"  {hourly:.0f} requests an hour, {spent / took:.2%} of a processor")
    resident, private = drive.memory()
    print(f"  memory {resident:.0f} MB resident, {private:.0f} MB private", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", type=int, default=500, help="for each feed")
    parser.add_argument("--rate", type=float, default=5.0, help="changes a second")
    parser.add_argument("--feeds", default="search,events")
    parser.add_argument("--idle", type=float, default=0.0, metavar="SECONDS", help="0: leave that out")
    parser.add_argument("--round-trip", default="0.04", help="of the link, seconds")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = str(listing.ROOT)
    for feed in chosen.feeds.split(","):
        os.environ["CMSFS_FEED"] = feed
        with listing.own_folders() as root:
            many = loading.Tree(FOLDER, 0, 1_000)
            credentials = trio.run(loading.fill, root / "data", [many])
            cmsfs = (sys.executable, "-m", "cmsfs")
            with listing.running(
                *cmsfs, "serve", "--data", str(root / "data"), "--port", "0", "--json"
            ) as served:
                port = json.loads(served)["url"].rpartition(":")[2]
                proxy = (
                    sys.executable,
                    str(listing.ROOT / "tests" / "support" / "proxy.py"),
                    "127.0.0.1",
                    port,
                )
                with listing.running(*proxy, "--round-trip", chosen.round_trip) as listens:
                    drive = listing.Drive(root, int(listens), credentials, crawl=True)
                    try:
                        drive.start()
                        changer = Changer(port, drive, many.ids[0])
                        measure_latency(feed, drive, changer, chosen.changes, chosen.rate)
                        if chosen.idle:
                            measure_idle(feed, drive, chosen.idle)
                    finally:
                        subprocess.run([*cmsfs, "umount", str(drive.top)], capture_output=True)


if __name__ == "__main__":
    main()
