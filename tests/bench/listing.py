"""Benchmark of listing the tree over a link with latency: `python tests/bench/listing.py`.

A service in its own process (`cmsfs serve`), a link with a round trip of 40 ms before it
(`tests/support/proxy.py`, a process too), a drive on it.  Beside each figure stands the same work done by
the plainest tool over the same link: one request for each folder, one after the other, on one connection.
Figures are of this machine and this moment; the ratios compare, and so do the requests and the seconds of
processor time that drive and service took for it.  Nothing here asserts anything.

`--items N` builds and lists a tree of so many (a million take some minutes to make; what was made is kept
below TMPDIR for the next run); the default leaves that part out.  `--whole-only` does nothing else.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import loading
import trio

from cmsfs.service.storage import store

ROOT = Path(__file__).resolve().parents[2]


class Drive:
    """A drive in its own processes, behind a link."""

    def __init__(self, root: Path, link: int, credentials: dict[str, str], *, crawl: bool) -> None:
        self.top = root / "drive"
        self.service = os.getpid()  # process id of the service, set once it has started
        self._link = link
        self._credentials = credentials
        (root / "secret").write_text(credentials["client_secret"])
        url = f"http://127.0.0.1:{link}"
        os.environ |= {
            "CMSFS_PROFILE": "server",
            "CMSFS_BASE_URL": f"{url}/2.0",
            "CMSFS_UPLOAD_URL": f"{url}/api/2.0",
            "CMSFS_AUTH_URL": url,
            "CMSFS_CLIENT_ID": credentials["client_id"],
            "CMSFS_CLIENT_SECRET_FILE": str(root / "secret"),
            "CMSFS_SUBJECT_ID": credentials["user_id"],
        }
        self.crawls(crawl)
        self.top.mkdir()

    def crawls(self, wanted: bool) -> None:
        os.environ["CMSFS_CRAWL"] = str(wanted).lower()

    def cmsfs(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *arguments], capture_output=True, text=True, cwd=ROOT
        )
        if done.returncode:
            sys.exit(f"cmsfs {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, *, forget: bool = False) -> float:
        """Mount and return the seconds until it is ready; `forget`: start without local state."""
        if forget:
            for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
                shutil.rmtree(os.environ[name])
                Path(os.environ[name]).mkdir(mode=0o700)
        return seconds(lambda: self.cmsfs("mount", str(self.top)))

    def stop(self) -> None:
        self.cmsfs("umount", str(self.top))

    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.cmsfs("status", "--json"))
        return found

    def requests(self) -> int:
        return sum(self.status()["requests"].values())  # type: ignore[attr-defined]

    @contextmanager
    def measured(self, table: "Table", count: int) -> Iterator[None]:
        """Add rows for the requests and the processor time of drive and service that the block takes."""
        pid, asked = self.status()["pid"], self.requests()
        ours, theirs = processor(pid), processor(self.service)
        yield
        ours, theirs = processor(pid) - ours, processor(self.service) - theirs
        asked = self.requests() - asked
        table.add(
            "  its requests", asked, "", None, f"{count / max(asked, 1):,.0f} entries each, polls included"
        )
        table.add("  processor time of the drive", ours, "s", None, f"{ours / count * 1e6:,.0f} µs an entry")
        table.add("  and of the service", theirs, "s", None, f"{theirs / count * 1e6:,.0f} µs an entry")

    def memory(self) -> tuple[float, float]:
        """Return the resident and private memory of the daemon in MB."""
        pid = self.status()["pid"]
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        )
        private = sum(int(fields[f"Private_{kind}"].split()[0]) for kind in ("Clean", "Dirty"))
        return int(fields["Rss"].split()[0]) / 1024, private / 1024

    def token(self, http: httpx.Client) -> dict[str, str]:
        answer = http.post(
            "/oauth2/token",
            data={
                "grant_type": "client_credentials",
                "client_id": self._credentials["client_id"],
                "client_secret": self._credentials["client_secret"],
                "box_subject_type": "user",
                "box_subject_id": self._credentials["user_id"],
            },
        )
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}

    def one_by_one(self, folders: list[str]) -> float:
        """Return the seconds for one request per folder (and page of 1,000), in sequence."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self._link}", timeout=60) as http:
            headers = self.token(http)
            began = time.perf_counter()
            for folder in folders:
                offset, total = 0, 1
                while offset < total:
                    url = f"/2.0/folders/{folder}/items?limit=1000&offset={offset}"
                    page = http.get(f"{url}&fields=name,size,modified_at,sha1,etag", headers=headers).json()
                    offset, total = offset + 1000, page["total_count"]
            return time.perf_counter() - began


class Table:
    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []

    def add(self, what: str, ours: float, unit: str, plain: float | None = None, note: str = "") -> None:
        beside = f"{plain:,.2f}" if plain is not None else ""
        if plain is not None and ours:
            note = f"{plain / ours:,.1f} times as fast{', ' if note else ''}{note}"
        self.rows.append((what, f"{ours:,.2f} {unit}", beside, note))
        print(f"  {what}: {ours:,.2f} {unit} {beside} {note}", file=sys.stderr, flush=True)

    def print(self) -> None:
        print(f"{'':58} {'drive':>16} {'plain':>10}  ")
        for what, ours, beside, note in self.rows:
            print(f"{what:58} {ours:>16} {beside:>10}  {note}")


def processor(pid: object) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def find(top: Path) -> int:
    found = subprocess.run(["find", str(top)], capture_output=True, check=True).stdout
    return found.count(b"\n")


def ls(folder: Path) -> int:
    found = subprocess.run(["ls", "-l", str(folder)], capture_output=True, check=True).stdout
    return found.count(b"\n")


# ---- measurements ------------------------------------------------------------------------------


def measure_find(drive: Drive, table: Table, folders: list[str], count: int) -> None:
    """Measure a cold `find` over many small folders."""
    plain = drive.one_by_one(folders)
    drive.start(forget=True)
    with drive.measured(table, count + len(folders) - 1):
        took = seconds(lambda: find(drive.top / "many"))
        table.add(f"cold find, {len(folders) - 1:,} folders, {count:,} files", took, "s", plain)
    table.add("  warm find", seconds(lambda: find(drive.top / "many")), "s")
    drive.stop()


def measure_ls(drive: Drive, table: Table, folder: str, count: int) -> None:
    """Measure listing one large folder."""
    plain = drive.one_by_one([folder])
    drive.start(forget=True)
    with drive.measured(table, count):
        took = seconds(lambda: ls(drive.top / "large"))
        table.add(f"cold ls -l, {count:,} entries", took, "s", plain)
    table.add("  warm", seconds(lambda: ls(drive.top / "large")), "s")
    drive.stop()
    started = drive.start()
    before = drive.requests()
    took = seconds(lambda: ls(drive.top / "large"))
    table.add("  after a restart", took, "s", None, f"{drive.requests() - before} requests, polls included")
    table.add("  the restart itself, command included", started, "s")
    drive.stop()


def measure_whole(drive: Drive, table: Table, count: int) -> None:
    """Measure the crawl of the whole tree."""
    drive.crawls(True)
    drive.start(forget=True)
    pid = drive.status()["pid"]
    service = processor(drive.service)
    began = time.perf_counter()
    took = seconds(lambda: find_one_level(drive.top))
    table.add(f"{count:,} items: first ls of the root while the crawl runs", took, "s")
    took = seconds(lambda: find_one_level(drive.top / "whole" / "folder 00007"))
    table.add("  ls of a folder below, not crawled yet", took, "s")
    status = drive.status()
    while status["listing"]["state"] != "complete":  # type: ignore[index]
        time.sleep(1)
        status = drive.status()
        print(f"  {status['listing']}", file=sys.stderr, flush=True)
    took = time.perf_counter() - began
    requests = sum(status["requests"].values())  # type: ignore[attr-defined]
    table.add("  everything known", took, "s", None, f"{count / took:,.0f} items/s, {requests:,} requests")
    ours, theirs = processor(pid), processor(drive.service) - service
    table.add("  processor time of the drive", ours, "s", None, f"{ours / count * 1e6:,.0f} µs an item")
    table.add("  and of the service", theirs, "s", None, f"{theirs / count * 1e6:,.0f} µs an item")
    table.add(
        "  memory then, resident", drive.memory()[0], "MB", None, f"{drive.memory()[1]:,.0f} MB private"
    )
    drive.stop()
    table.add("  restart, command included", drive.start(), "s")
    table.add("  first ls of the root", seconds(lambda: find_one_level(drive.top)), "s")
    table.add(
        "  memory after a restart", drive.memory()[0], "MB", None, f"{drive.memory()[1]:,.0f} MB private"
    )
    before = drive.requests()
    took = seconds(lambda: find(drive.top))
    asked = drive.requests() - before
    table.add(
        "  find over all of it", took, "s", None, f"{count / took:,.0f}/s, {asked} requests, polls included"
    )
    table.add("  memory after that", drive.memory()[0], "MB", None, f"{drive.memory()[1]:,.0f} MB private")
    drive.stop()


def find_one_level(folder: Path) -> int:
    return sum(1 for _ in os.scandir(folder))


def filled(trees: list[loading.Tree]) -> tuple[Path, dict[str, str], list[loading.Tree]]:
    """Return a service's data with these trees, created now or by an earlier run."""
    wanted = [(tree.name, tree.folders, tree.files) for tree in trees]
    name = "-".join(f"{folders}x{files}" for _, folders, files in wanted)
    root = Path(tempfile.gettempdir()) / "cmsfs-bench-listing" / f"{name}-{store.VERSION}"
    made = root / "made.json"
    if not made.exists():
        print("  filling the service", file=sys.stderr, flush=True)
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        credentials = trio.run(loading.fill, root / "data", trees)
        made.write_text(json.dumps([credentials, [tree.ids for tree in trees]]))
    credentials, ids = json.loads(made.read_text())
    for tree, known in zip(trees, ids, strict=True):
        tree.ids[:] = known
    return root / "data", credentials, trees


# ---- processes -----------------------------------------------------------------------------------


@contextmanager
def running(*command: str) -> Iterator[str]:
    """Run a process for the block; it prints a line or a JSON object when it is ready."""
    # Logging would measure the terminal.
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, text=True, cwd=ROOT, **pipes)  # type: ignore[call-overload]
    assert process.stdout and process.stdin
    try:
        said = process.stdout.readline()
        while said.startswith("{") and not said.endswith("}\n"):
            said += process.stdout.readline()
        yield said
    finally:
        process.terminate()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def children() -> Iterator[tuple[int, list[str]]]:
    """Yield the child processes with their command lines."""
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    for pid in task.read_text().split():
        yield int(pid), Path(f"/proc/{pid}/cmdline").read_text().split("\0")


@contextmanager
def own_folders() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cmsfs-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        for variable in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
            folder = root / variable.lower()
            folder.mkdir(mode=0o700)
            os.environ[f"XDG_{variable}"] = str(folder)
        yield root


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folders", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=20, help="in each folder")
    parser.add_argument("--entries", type=int, default=10_000, help="of the one large folder")
    parser.add_argument("--items", type=int, default=0, help="of a whole tree, 200 to a folder; 0: none")
    parser.add_argument("--whole-only", action="store_true", help="only the part of --items")
    parser.add_argument("--round-trip", default="0.04", help="of the link, seconds")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    table = Table()
    with own_folders() as root:
        trees = [
            loading.Tree("many", chosen.folders, chosen.files),
            loading.Tree("large", 0, chosen.entries),
        ]
        if chosen.items:
            trees.append(loading.Tree("whole", chosen.items // 201, 200))
        data, credentials, trees = filled(trees)
        many, large = trees[:2]
        serve = (
            sys.executable,
            "-m",
            "cmsfs",
            "serve",
            "--data",
            str(data),
            "--port",
            "0",
            "--json",
        )
        with running(*serve) as served:
            port = json.loads(served)["url"].rpartition(":")[2]
            proxy = (sys.executable, str(ROOT / "tests" / "support" / "proxy.py"), "127.0.0.1", port)
            with running(*proxy, "--round-trip", chosen.round_trip) as listens:
                drive = Drive(root, int(listens), credentials, crawl=False)
                drive.service = next(pid for pid, command in children() if "serve" in command)
                try:
                    if not chosen.whole_only:
                        measure_find(drive, table, many.ids, chosen.folders * chosen.files)
                        measure_ls(drive, table, large.ids[0], chosen.entries)
                    if chosen.items:
                        measure_whole(drive, table, sum(tree.size for tree in trees))
                finally:
                    subprocess.run(
                        [sys.executable, "-m", "cmsfs", "umount", str(drive.top)], capture_output=True
                    )
    table.print()


if __name__ == "__main__":
    main()
