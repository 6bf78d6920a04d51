"""Reads over a link with latency, beside the plainest tools over that link: `python tests/bench/reads.py`.

Starts the service in a process of its own, a link of 40 ms before it, a drive on the link, and does the same
work by the drive and by `curl`.  Prints one table; nothing here asserts anything.  Figures are of this
machine and this moment, the ratios are what compares.  `--only` takes a part of the names below.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

MIB = 1024 * 1024

# Bytes a second: a hundred megabits, a gigabit, and whatever it can.
RATES = (12.5e6, 125e6, 0)
HERE = Path(__file__).resolve().parent


class Bench:
    """A service, a link, a drive, and the rows of the table."""

    def __init__(self, root: Path, *, round_trip: float) -> None:
        self.root = root
        self.drive = root / "drive"
        self.drive.mkdir()
        self.round_trip = round_trip
        self.rows: list[tuple[str, str, str, str]] = []
        self.ids: dict[str, str] = {}
        self.link: subprocess.Popen[str] | None = None
        self.service = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "cmsfs",
                "serve",
                "--data",
                str(root / "service"),
                "--port",
                "0",
                "--json",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.service.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += self.service.stdout.readline()
        said = json.loads(text)
        self.port = int(said["url"].rpartition(":")[2])
        self.credentials = json.loads(Path(said["credentials_file"]).read_text())
        secret = root / "secret"
        secret.write_text(self.credentials["client_secret"])
        secret.chmod(0o600)
        self.through(None)

    def add(self, what: str, drive: str, tool: str = "", ratio: str = "") -> None:
        self.rows.append((what, drive, tool, ratio))
        print(f"  {what}: {drive} {tool} {ratio}", file=sys.stderr)

    # ---- the link ----

    def through(self, link: dict[str, float] | None) -> None:
        """Reach the service by a link of these terms from now on; None: directly."""
        self._end_link()
        port = self.port
        if link is not None:
            terms = [
                part for key, value in link.items() for part in (f"--{key.replace('_', '-')}", str(value))
            ]
            self.link = subprocess.Popen(
                [sys.executable, str(HERE.parent / "proxy.py"), "127.0.0.1", str(self.port), *terms],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self.link.stdout is not None
            port = int(self.link.stdout.readline())
        self.url = f"http://127.0.0.1:{port}"
        config = Path(os.environ["XDG_CONFIG_HOME"]) / "cmsfs" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(
            f'account = "bench"\nprofile = "specification"\nbase_url = "{self.url}/2.0"\n'
            f'upload_url = "{self.url}/api/2.0"\nauth_url = "{self.url}"\n'
            f'client_id = "{self.credentials["client_id"]}"\nclient_secret_file = "{self.root}/secret"\n'
            f'subject_id = "{self.credentials["user_id"]}"\n'
        )

    def _end_link(self) -> None:
        if self.link is not None and self.link.stdin is not None and self.link.stdout is not None:
            self.link.stdin.close()
            self.link.wait()
            self.link.stdout.close()
            self.link = None

    # ---- the drive ----

    def cmsfs(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *arguments], capture_output=True, text=True, cwd="/"
        )
        if done.returncode:
            sys.exit(f"cmsfs {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cmsfs("status", "--json"))
        return found

    @contextmanager
    def mounted(self, *, forget: bool = True) -> Iterator[Path]:
        """The drive, with the tree known and, if `forget`, nothing of its content here."""
        if forget:
            for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
                shutil.rmtree(os.environ[name])
                Path(os.environ[name]).mkdir(mode=0o700)
        drop_caches()
        self.cmsfs("mount", str(self.drive))
        try:
            for _ in os.walk(self.drive):
                pass
            yield self.drive
        finally:
            self.cmsfs("umount", str(self.drive))

    def cached_bytes(self) -> int:
        """What the drive has fetched, as blocks on the disk."""
        blocks = Path(os.environ["XDG_CACHE_HOME"]).glob("cmsfs/*/blocks/??/*")
        return sum(path.stat().st_blocks * 512 for path in blocks)

    # ---- curl ----

    def curl(self, urls: list[str], *arguments: str) -> list[float]:
        """Fetch one after another over one connection; the seconds of each."""
        token = self._token()
        lines = [f'url = "{url}"\noutput = "/dev/null"' for url in urls]
        done = subprocess.run(
            *(["curl", "-sS", "-H", f"authorization: Bearer {token}", *arguments, "-K", "-"],),
            input="\n".join(['write-out = "%{time_total} %{response_code}\\n"', *lines]),
            capture_output=True,
            text=True,
            check=True,
        )
        found = [line.split() for line in done.stdout.splitlines()]
        assert all(code in ("200", "206") for _, code in found), done.stdout[:500]
        return [float(seconds) for seconds, _ in found]

    def content_url(self, name: str) -> str:
        return f"{self.url}/2.0/files/{self.ids[name]}/content"

    def _token(self) -> str:
        form = [
            part
            for key, value in (
                ("grant_type", "client_credentials"),
                ("client_id", self.credentials["client_id"]),
                ("client_secret", self.credentials["client_secret"]),
                ("box_subject_type", "user"),
                ("box_subject_id", self.credentials["user_id"]),
            )
            for part in ("-d", f"{key}={value}")
        ]
        done = subprocess.run(
            ["curl", "-sS", *form, f"http://127.0.0.1:{self.port}/oauth2/token"],
            capture_output=True,
            check=True,
        )
        return str(json.loads(done.stdout)["access_token"])

    def close(self) -> None:
        self._end_link()
        self.service.terminate()
        self.service.wait()
        if self.service.stdout is not None:
            self.service.stdout.close()


def drop_caches() -> None:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        pass  # without the right to it, what follows is warmer than it says


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def skim(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(MIB):
            pass


def first_byte(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        file.read(1)


# ---- filling the service ----


async def _fill(bench: Bench, files: list[tuple[str, str, int]]) -> None:
    """Upload files of random bytes: (folder path, name, size)."""
    from cmsfs import config
    from cmsfs.auth import backend
    from cmsfs.client import multipart
    from cmsfs.models import uploads

    async with backend.open_backend(config.load("bench")) as client:
        folders = {"": "0"}
        for path in sorted({folder for folder, _, _ in files}):
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts)):
                here, above = "/".join(parts[: depth + 1]), "/".join(parts[:depth])
                if here not in folders:
                    folders[here] = (await client.folders.create(parts[depth], folders[above])).id
        work = iter(files)

        async def worker() -> None:
            for folder, name, size in work:
                data = random.randbytes(min(size, MIB)) * max(1, size // MIB)
                attributes = uploads.Attributes.model_validate(
                    {"name": name, "parent": {"id": folders[folder]}}
                )
                sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
                made = await client.uploads.new_file(attributes, multipart.BytesSource(data), sha1=sha1)
                bench.ids[f"{folder}/{name}".lstrip("/")] = made.id

        async with trio.open_nursery() as nursery:
            for _ in range(4 if max(size for *_, size in files) < MIB else 1):
                nursery.start_soon(worker)


def fill(bench: Bench, files: list[tuple[str, str, int]]) -> list[str]:
    bench.through(None)
    trio.run(_fill, bench, files)
    return [f"{folder}/{name}".lstrip("/") for folder, name, _ in files]


# ---- what is measured ----


def sequential(bench: Bench, megabytes: int) -> None:
    """Cold sequential reads, on a capped and on an uncapped link."""
    fill(bench, [("", "large", megabytes * MIB)])
    for rate in RATES:
        size = megabytes if rate != 12.5e6 else min(megabytes, 64)
        if size != megabytes:
            fill(bench, [("", "short", size * MIB)])
        name = "large" if size == megabytes else "short"
        bench.through({"round_trip": bench.round_trip} | ({"rate": rate} if rate else {}))
        plain = size / bench.curl([bench.content_url(name)])[0]
        with bench.mounted() as drive:
            began = cpu(bench)
            ours = size / seconds(partial(skim, drive / name))
            used = cpu(bench) - began
        cap = f"capped at {rate / 1e6:.0f} MB/s" if rate else "not capped"
        bench.add(
            f"cold sequential {size} MiB, {cap}", f"{ours:,.0f} MiB/s", f"{plain:,.0f}", f"{ours / plain:.2f}"
        )
        bench.add("   CPU of the daemon a GiB", f"{used * 1024 / size:.1f} s")


def small_files(bench: Bench, count: int) -> None:
    """Cold `grep -r` over many small files, flat and nested, and what a walk that stops fetched in vain."""
    size = 20_000
    flat = fill(bench, [("flat", f"f{n:05}", size) for n in range(count)])
    fill(bench, [(f"tree/a{n % 10}/b{n % 100 // 10}", f"f{n:05}", size) for n in range(count)])
    half = fill(bench, [("half", f"f{n:05}", size) for n in range(count)])
    assert half
    bench.through({"round_trip": bench.round_trip})
    sample = flat[:: max(1, count // 100)]
    each = sum(bench.curl([bench.content_url(name) for name in sample])) / len(sample)
    one_by_one = each * count
    for name in ("flat", "tree"):
        with bench.mounted() as drive:
            took = seconds(partial(run, ["grep", "-r", "-c", "qqqqqqqq", str(drive / name)]))
            bench.add(
                *(f"cold grep -r, {count} files of 20 kB, {name}", f"{took:.2f} s", f"{one_by_one:.1f} s"),
                f"{one_by_one / took:.1f}",
            )
    for what, stop in (("a half", count // 2), ("a tenth", count // 10), ("10 files", 10)):
        with bench.mounted() as drive:
            names = [path.name for path in (drive / "half").iterdir()]
            for name in names[:stop]:
                (drive / "half" / name).read_bytes()
            time.sleep(2)  # what is under way arrives
            fetched = count_cached()
            bench.add(
                f"fetched in vain by a walk that stops after {what}",
                f"{fetched - stop} files",
                "",
                f"{(fetched - stop) / max(1, fetched):.0%}",
            )
    with bench.mounted() as drive:
        took = seconds(partial(run, ["cp", "-r", str(drive / "tree"), str(bench.root / "copy")]))
        bench.add(
            "cold cp -r of the tree", f"{took:.2f} s", f"{one_by_one:.1f} s", f"{one_by_one / took:.1f}"
        )
    with bench.mounted() as drive:
        # By a pipe: tar does not read what it would write to /dev/null.
        took = seconds(partial(run, ["sh", "-c", f"tar cf - -C '{drive}' tree | cat"]))
        bench.add("cold tar of the tree", f"{took:.2f} s", f"{one_by_one:.1f} s", f"{one_by_one / took:.1f}")


def count_cached() -> int:
    return len(list(Path(os.environ["XDG_CACHE_HOME"]).glob("cmsfs/*/blocks/??/*")))


def run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def head(bench: Bench, count: int) -> None:
    """The first byte of a cold small file; both sides have a connection already."""
    names = fill(bench, [(f"h{n}", "f", 3_000) for n in range(count)])
    bench.through({"round_trip": bench.round_trip})
    plain = sorted(bench.curl([bench.content_url(name) for name in names])[1:])
    with bench.mounted() as drive:
        ours = sorted(seconds(partial(first_byte, drive / name)) for name in names)
    middle, beside = ours[len(ours) // 2], plain[len(plain) // 2]
    bench.add(
        *("first byte of a cold small file, median", f"{middle * 1000:.1f} ms", f"{beside * 1000:.1f} ms"),
        f"+{(middle - beside) * 1000:.1f} ms",
    )


def scattered(bench: Bench, megabytes: int) -> None:
    """Random 64 KiB reads in a large file."""
    fill(bench, [("", "huge", megabytes * MIB)])
    bench.through({"round_trip": bench.round_trip})
    with bench.mounted() as drive:
        places = random.Random(4)
        with (drive / "huge").open("rb", buffering=0) as file:
            began = time.perf_counter()
            for _ in range(200):
                file.seek(places.randrange(megabytes * MIB - 65536))
                file.read(65536)
            each = (time.perf_counter() - began) / 200
        time.sleep(1)
        fetched = bench.cached_bytes()
    asked = 200 * 65536
    bench.add(
        "random 64 KiB reads: bytes fetched over bytes asked",
        f"{fetched / asked:.2f}",
        "",
        f"{each * 1000:.0f} ms",
    )


def warm(bench: Bench, megabytes: int) -> None:
    """Block cache, page cache, stat, and a drive that nobody uses."""
    fill(bench, [("", "warm", megabytes * MIB)])
    plain = bench.root / "warm"
    plain.write_bytes(random.randbytes(MIB) * megabytes)
    bench.through({"round_trip": bench.round_trip})
    with bench.mounted() as drive:
        skim(drive / "warm")
    with bench.mounted(forget=False) as drive:
        for path in (plain, *Path(os.environ["XDG_CACHE_HOME"]).glob("cmsfs/*/blocks/??/*")):
            skim(path)  # both from memory: what is compared is the way, not the disk
        for what in ("block cache", "page cache"):
            ours = megabytes / seconds(partial(skim, drive / "warm"))
            theirs = megabytes / seconds(partial(skim, plain))
            bench.add(f"sequential, {what}", f"{ours:,.0f} MiB/s", f"{theirs:,.0f}", f"{ours / theirs:.2f}")
        for what, path in (("drive", drive / "warm"), ("host", plain)):
            took = seconds(lambda path=path: [os.stat(path) for _ in range(100_000)])
            bench.add(f"stat, {what}", f"{100_000 / took:,.0f} a second")
        before, began = cpu(bench), time.perf_counter()
        time.sleep(20)
        used = (cpu(bench) - before) / (time.perf_counter() - began)
        bench.add("CPU of an idle mount", f"{used:.2%}")


def cpu(bench: Bench) -> float:
    """Seconds of processor time that the daemon has used."""
    stat = Path(f"/proc/{bench.status()['pid']}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


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
    parser.add_argument("--round-trip", type=float, default=0.04, help="seconds of the link, there and back")
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the file read sequentially")
    parser.add_argument("--huge", type=int, default=2048, help="MiB of the file read at random")
    parser.add_argument("--files", type=int, default=2000, help="how many small files")
    parser.add_argument("--only", default="", help="sequential, small, head, scattered or warm")
    chosen = parser.parse_args()
    parts: dict[str, Callable[[Bench], None]] = {
        "sequential": partial(sequential, megabytes=chosen.megabytes),
        "small": partial(small_files, count=chosen.files),
        "head": partial(head, count=40),
        "scattered": partial(scattered, megabytes=chosen.huge),
        "warm": partial(warm, megabytes=chosen.megabytes),
    }
    with own_folders() as root:
        bench = Bench(root, round_trip=chosen.round_trip)
        try:
            for name, part in parts.items():
                if re.search(chosen.only, name):
                    part(bench)
        finally:
            subprocess.run(
                [sys.executable, "-m", "cmsfs", "umount", str(bench.drive)], capture_output=True, cwd="/"
            )
            bench.close()
    print(f"{'':60} {'drive':>16} {'plain tool':>12} {'ratio':>9}")
    for what, drive, tool, ratio in bench.rows:
        print(f"{what:60} {drive:>16} {tool:>12} {ratio:>9}")


if __name__ == "__main__":
    main()
