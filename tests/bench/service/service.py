"""Benchmark of the service with a million items: `python tests/bench/service/service.py [--items N]`.

Makes a store by the store's own functions (two minutes; it is kept below TMPDIR for the next run), starts
`cmsfs serve` on it, and asks over HTTP what drives and people ask.  The table shows the time of one request,
the processor time that the service took for it, and what that is of a bare request of the same run
(`GET /users/me`), since figures are of this machine and this moment.  Nothing here asserts anything.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import hello
import httpx
import service_parts
import service_store
import trio

from cmsfs.client.content.search import EVERYTHING, FIELDS
from cmsfs.service.storage import store

MIB = 1024 * 1024
FIELDS_PARAM = ",".join(FIELDS)


class Bench:
    """A running service, a caller, and the rows of the table."""

    def __init__(self, root: Path, url: str, pid: int) -> None:
        self.root = root
        self.url = url
        self.pid = pid
        self.http = httpx.Client(base_url=f"{url}/2.0", timeout=120)
        self.rows: list[tuple[str, str, float | None]] = []  # what, figure, milliseconds of the processor
        self.bare = 0.0

    def log_in(self) -> None:
        made = json.loads((self.root / "credentials.json").read_text(encoding="utf-8"))
        form = {
            "grant_type": "client_credentials",
            "client_id": made["client_id"],
            "client_secret": made["client_secret"],
            "box_subject_type": "user",
            "box_subject_id": made["user_id"],
        }
        token = httpx.post(f"{self.url}/oauth2/token", data=form).raise_for_status().json()["access_token"]
        self.http.headers["authorization"] = f"Bearer {token}"

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(path, params=params).raise_for_status().json()
        return found

    def search(self, **params: Any) -> dict[str, Any]:
        fixed = {"query": EVERYTHING, "limit": 200, "fields": FIELDS_PARAM}
        if "query" not in params:
            fixed |= {"sort": "modified_at", "direction": "DESC"}
        return self.get("/search", **(fixed | params))

    def folder(self, path: str) -> str:
        found = "0"
        for name in path.split("/"):
            entries = self.get(f"/folders/{found}/items", limit=1000)["entries"]
            found = next(one["id"] for one in entries if one["name"] == name)
        return found

    def write_something(self) -> None:
        """What was found before is to be found again."""
        self.http.post(
            "/folders", json={"name": f"w{time.time_ns()}", "parent": {"id": "0"}}
        ).raise_for_status()

    def milliseconds(
        self, what: str, action: Callable[[], object], *, fresh: bool = True, times: int = 5
    ) -> None:
        """The best of some; `fresh`: each after a change of the data."""
        best = processor = float("inf")
        for _ in range(times):
            if fresh:
                self.write_something()
            before, began = self.worked(), time.perf_counter()
            action()
            best = min(best, time.perf_counter() - began)
            processor = min(processor, self.worked() - before)
        self.bare = self.bare or processor
        self.add(what, f"{best * 1000:10,.1f} ms", processor)

    def worked(self) -> float:
        """Return the service's processor time in milliseconds."""
        return hello.processor(self.pid)

    def add(self, what: str, figure: str, processor: float | None = None) -> None:
        self.rows.append((what, figure, processor))
        more = "" if processor is None else f", {processor:,.2f} ms of the processor"
        print(f"  {what}: {figure.strip()}{more}", file=sys.stderr)

    def memory(self, when: str) -> None:
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines()
        )
        for name, what in (("VmRSS", "resident"), ("VmHWM", "largest so far")):
            self.add(f"memory {when}, {what}", f"{int(fields[name].split()[0]) / 1024:10,.0f} MB")


def measure(bench: Bench, megabytes: int, uploads: int) -> None:
    bench.memory("at start")
    bench.milliseconds("a bare request", lambda: bench.get("/users/me"), fresh=False, times=50)
    single_requests(bench)
    folders = {"root": "0"}
    for path in ("projects", "middle", "middle/m03", "flat", "deep/a/b/c/d/e/f/g"):
        folders[path] = bench.folder(path)
    for path, wire_id in folders.items():
        first = bench.search(ancestor_folder_ids=wire_id)
        where = f"below {path} ({first['total_count']:,})"
        below = {"ancestor_folder_ids": wire_id}
        bench.milliseconds(f"page of 200 {where}, first", partial(bench.search, **below))
        bench.milliseconds(
            f"page of 200 {where}, at 4,000, alone", partial(bench.search, offset=4000, **below)
        )
        bench.search(offset=4000, **below)
        bench.milliseconds(
            f"page of 200 {where}, at 4,200, after it",
            partial(bench.search, offset=4200, **below),
            fresh=False,
        )
    windows(bench, "middle", folders["middle"])
    words(bench)
    listings(bench, folders)
    service_parts.measure(bench)
    enumerate_everything(bench)
    transfers(bench, megabytes, uploads)
    bench.memory("at the end")


def single_requests(bench: Bench) -> None:
    """Measure the processor time of one request, compared with "hello" servers."""
    port = int(bench.url.rpartition(":")[2])
    item = next(one["id"] for one in bench.get("/search", query=EVERYTHING, type="file")["entries"])
    for what, path in (
        ("GET of a file", f"/2.0/files/{item}"),
        ("the same with a drive's fields", f"/2.0/files/{item}?fields={FIELDS_PARAM}"),
    ):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: {bench.http.headers['authorization']}\r\n\r\n"
        bench.add(what, "", hello.cost(port, bench.pid, head.encode()))
    for server, each in hello.rows():
        bench.add(f"a bare hello of {server}", "", each)


def windows(bench: Bench, name: str, wire_id: str) -> None:
    """Measure the searches of a drive for a folder with more items than one search can return."""
    newest = bench.search(ancestor_folder_ids=wire_id)
    end = newest["entries"][0]["created_at"]
    sample = bench.search(ancestor_folder_ids=wire_id, offset=min(9000, newest["total_count"] // 2))[
        "entries"
    ]
    span = {"created_at_range": f"{sample[0]['created_at']},{end}", "ancestor_folder_ids": wire_id}
    total = bench.search(**span)["total_count"]
    what = f"window of {total:,} below {name}"
    bench.milliseconds(f"{what}, first page", lambda: bench.search(**span))
    bench.milliseconds(f"{what}, at 4,000, alone", lambda: bench.search(offset=4000, **span))
    bench.milliseconds(f"{what}, at 4,200, after it", lambda: bench.search(offset=4200, **span), fresh=False)
    since = bench.search()["entries"][10]["modified_at"]
    bench.milliseconds("changed since (some 10 items)", lambda: bench.search(updated_at_range=f"{since},"))


def words(bench: Bench) -> None:
    for word in (service_store.RARE, service_store.COMMON):
        total = bench.search(query=word)["total_count"]
        bench.milliseconds(f"word with {total:,} matches, by relevance", partial(bench.search, query=word))
        bench.milliseconds(
            f"word with {total:,} matches, latest first",
            partial(bench.search, query=word, sort="modified_at", direction="DESC"),
        )
    both = f"{service_store.COMMON} AND bridge"
    total = bench.search(query=both)["total_count"]
    bench.milliseconds(f"two words, {total:,} matches", lambda: bench.search(query=both))


def listings(bench: Bench, folders: dict[str, str]) -> None:
    path = f"/folders/{folders['flat']}/items"
    page = {"limit": 1000, "fields": FIELDS_PARAM}
    bench.milliseconds("listing of the flat folder, 1,000 entries", lambda: bench.get(path, **page))
    bench.milliseconds("the same at 15,000", lambda: bench.get(path, offset=15_000, **page))


def enumerate_everything(bench: Bench) -> None:
    """Enumerate all items by windows, page by page, as a drive's first listing does."""
    began = time.perf_counter()
    pages = items = 0
    worked = bench.worked()
    moment = None
    longest = 0.0
    while True:
        # Windows of a fitting length; a drive finds them by a page at 9,000.
        start: dict[str, str] = {} if moment is None else {"created_at_range": f"{moment},"}
        edge = bench.search(sort="relevance", offset=9600, limit=1, **start)["entries"]
        span = f"{moment or ''},{edge[0]['created_at']}" if edge else f"{moment},"
        offset = 0
        while True:
            asked = time.perf_counter()
            found = bench.search(created_at_range=span, offset=offset)
            longest = max(longest, time.perf_counter() - asked)
            pages += 1
            items += len(found["entries"])
            offset += 200
            if offset >= found["total_count"]:
                break
        if not edge:
            break
        moment = edge[0]["created_at"]
    took = time.perf_counter() - began
    each = (bench.worked() - worked) / pages
    bench.add(f"all {items:,} items by windows: a page, on average", f"{took / pages * 1000:10,.1f} ms", each)
    bench.add("the slowest of these pages", f"{longest * 1000:10,.1f} ms")
    bench.add("all of them", f"{items / took:10,.0f} items/s")


def transfers(bench: Bench, megabytes: int, uploads: int) -> None:
    folder = bench.http.post("/folders", json={"name": f"up{time.time_ns()}", "parent": {"id": "0"}}).json()[
        "id"
    ]
    trio.run(_upload_many, bench, folder, uploads)
    data = os.urandom(MIB)

    def blocks() -> Iterator[bytes]:
        attributes = json.dumps({"name": "large", "parent": {"id": folder}})
        yield (
            f'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n{attributes}\r\n'
            '--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        ).encode()
        for _ in range(megabytes):
            yield data
        yield b"\r\n--edge--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=edge"}
    began = time.perf_counter()
    answer = bench.http.post(f"{bench.url}/api/2.0/files/content", content=blocks(), headers=headers)
    took = time.perf_counter() - began
    wire_id = answer.raise_for_status().json()["entries"][0]["id"]
    bench.add(f"upload of {megabytes} MiB", f"{megabytes * MIB / 1e6 / took:10,.0f} MB/s")
    began = time.perf_counter()
    headers = {"prefer": "return=representation"}
    with bench.http.stream("GET", f"/files/{wire_id}/content", headers=headers) as answer:
        size = sum(len(chunk) for chunk in answer.iter_raw())
    took = time.perf_counter() - began
    bench.add(f"download of {megabytes} MiB", f"{size / 1e6 / took:10,.0f} MB/s")


async def _upload_many(bench: Bench, folder: str, count: int) -> None:
    numbers = iter(range(count))
    headers = {"authorization": bench.http.headers["authorization"]}
    headers["content-type"] = "multipart/form-data; boundary=edge"

    async def worker(client: httpx.AsyncClient) -> None:
        for number in numbers:
            attributes = json.dumps({"name": f"{number}.txt", "parent": {"id": folder}})
            data = f"small file {number}\n"
            body = (
                f'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n{attributes}\r\n'
                f'--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n{data}'
                "\r\n--edge--\r\n"
            )
            sha1 = hashlib.sha1(data.encode(), usedforsecurity=False).hexdigest()
            more = headers | {"content-md5": sha1}
            answer = await client.post(
                f"{bench.url}/api/2.0/files/content", content=body.encode(), headers=more
            )
            answer.raise_for_status()

    async with httpx.AsyncClient(timeout=120) as client:
        worked, began = bench.worked(), time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(worker, client)
        each = (bench.worked() - worked) / count
        bench.add(
            "uploads of small files, four at a time",
            f"{count / (time.perf_counter() - began):10,.0f} files/s",
            each,
        )


@contextmanager
def serving(root: Path) -> Iterator[tuple[str, int, float]]:
    """`cmsfs serve` on a copy-free store; its URL, its process, and how long it took to start."""
    command = [sys.executable, "-m", "cmsfs", "serve", "--data", str(root), "--port", "0", "--json"]
    began = time.perf_counter()
    # Logging would measure the terminal.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout
    document = ""
    while not document.endswith("}\n"):
        line = process.stdout.readline()
        if not line:
            sys.exit("cmsfs serve did not start")
        document += line
    took = time.perf_counter() - began
    try:
        yield json.loads(document)["url"], process.pid, took
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--uploads", type=int, default=1000)
    parser.add_argument("--cache", type=Path, help="where made stores are kept (default: below TMPDIR)")
    chosen = parser.parse_args()
    cache = chosen.cache or Path(tempfile.gettempdir()) / "cmsfs-bench-service"
    root = cache / f"{chosen.items}-{store.VERSION}"
    trio.run(service_store.make, root, chosen.items)
    with serving(root) as (url, pid, took):
        bench = Bench(root, url, pid)
        bench.add("start", f"{took:10,.2f} s")
        bench.log_in()
        measure(bench, chosen.megabytes, chosen.uploads)
    print(f"{'':62} {'':>18} {'processor':>12} {'of a bare one':>14}")
    for what, figure, processor in bench.rows:
        beside = "" if processor is None else f"{processor:9,.2f} ms {processor / bench.bare:14,.1f}"
        print(f"{what:62} {figure:>18} {beside}")


if __name__ == "__main__":
    main()
