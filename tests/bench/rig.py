"""The rig of the read benchmarks: a service, a link with latency, a drive, and `curl`."""

import hashlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rival
import trio

MIB = 1024 * 1024
HERE = Path(__file__).resolve().parent

# The service returns the bytes without a redirect, as it does for the drive.
_BYTES = ("-H", "prefer: return=representation")


class Bench:
    """A service, a link, a drive, and the rows of the table."""

    def __init__(
        self, root: Path, *, round_trip: float, profile: str = "server", rclone: Path | None = None
    ) -> None:
        """`rclone`: path of its binary; then everything uses TLS, since rclone's backend requires it."""
        self.root = root
        self.rclone = rclone
        self.tls: list[Path] = _certificate(root) if rclone else []
        self._profile = profile
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
                *(["--tls-cert", str(self.tls[0]), "--tls-key", str(self.tls[1])] if self.tls else []),
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
        """Reach the service through a link with these properties from now on; None: directly."""
        self._end_link()
        port = self.port
        if link is not None:
            terms = [
                part for key, value in link.items() for part in (f"--{key.replace('_', '-')}", str(value))
            ]
            self.link = subprocess.Popen(
                [
                    sys.executable,
                    str(HERE.parent / "support" / "proxy.py"),
                    "127.0.0.1",
                    str(self.port),
                    *terms,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self.link.stdout is not None
            port = int(self.link.stdout.readline())
        self.url = f"{self._scheme}://127.0.0.1:{port}"
        config = Path(os.environ["XDG_CONFIG_HOME"]) / "cmsfs" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(
            f'account = "bench"\nprofile = "{self._profile}"\nbase_url = "{self.url}/2.0"\n'
            f'upload_url = "{self.url}/api/2.0"\nauth_url = "{self.url}"\n'
            f'client_id = "{self.credentials["client_id"]}"\nclient_secret_file = "{self.root}/secret"\n'
            f'subject_id = "{self.credentials["user_id"]}"\n'
            + (f'ca_file = "{self.tls[0]}"\n' if self.tls else "")
        )

    @property
    def _scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def _trusted(self) -> list[str]:
        return ["--cacert", str(self.tls[0])] if self.tls else []

    @contextmanager
    def beside(self) -> Iterator[rival.Rclone | None]:
        """Mount the same service with rclone over the same link, if it was given, with empty caches."""
        if self.rclone is None:
            yield None
            return
        drop_caches()
        port = int(self.url.rpartition(":")[2])
        with rival.mounted(
            self.rclone, self.root, port=port, ca_file=self.tls[0], token=self._token()
        ) as found:
            yield found

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
        """Mount the drive and list its tree; `forget`: start with an empty cache."""
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
        """Return the size of the drive's cached blocks on disk."""
        blocks = Path(os.environ["XDG_CACHE_HOME"]).glob("cmsfs/*/blocks/??/*")
        return sum(path.stat().st_blocks * 512 for path in blocks)

    # ---- curl ----

    def curl(self, urls: list[str], *arguments: str) -> list[float]:
        """Fetch the URLs in order over one connection; return the seconds of each."""
        token = self._token()
        lines = [f'url = "{url}"\noutput = "/dev/null"' for url in urls]
        done = subprocess.run(
            *(
                [
                    "curl",
                    "-sS",
                    "-H",
                    f"authorization: Bearer {token}",
                    *self._trusted,
                    *_BYTES,
                    *arguments,
                    "-K",
                    "-",
                ],
            ),
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
            ["curl", "-sS", *self._trusted, *form, f"{self._scheme}://127.0.0.1:{self.port}/oauth2/token"],
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


def _certificate(root: Path) -> list[Path]:
    """Create a certificate for 127.0.0.1 and rclone's name of the service; return it and its key."""
    sys.path.append(str(HERE.parents[1]))  # a benchmark is a script, and `tests` is not an installed package
    certificates = importlib.import_module("tests.support.certificates")
    return list(certificates.self_signed(root, *rival.HOSTS))


def drop_caches() -> None:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        pass  # not permitted: "cold" figures are then too good


def touch_memory(megabytes: int) -> None:
    """Touch free memory, so that its pages are already backed by the host.

    A virtual machine's host allocates a page at its first write, which takes ten times as long as a
    copy (2.5 s per GiB against 0.2 s, measured with dd) and would distort the comparison.
    """
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        for _ in range(megabytes):
            file.write(bytes(MIB))


async def _fill(bench: Bench, files: list[tuple[str, str, int]]) -> None:
    """Upload files of random bytes: (folder path, name, size)."""
    from cmsfs import config
    from cmsfs.auth import connect
    from cmsfs.client.content.uploads import BytesSource
    from cmsfs.models.content import uploads

    async with connect.open_backend(config.load("bench")) as client:
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
                attributes = uploads.UploadAttributes.model_validate(
                    {"name": name, "parent": {"id": folders[folder]}}
                )
                sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
                made = await client.uploads.new_file(attributes, BytesSource(data), sha1=sha1)
                bench.ids[f"{folder}/{name}".lstrip("/")] = made.id

        async with trio.open_nursery() as nursery:
            for _ in range(4 if max(size for *_, size in files) < MIB else 1):
                nursery.start_soon(worker)


def fill(bench: Bench, files: list[tuple[str, str, int]]) -> list[str]:
    bench.through(None)
    trio.run(_fill, bench, files)
    return [f"{folder}/{name}".lstrip("/") for folder, name, _ in files]


@contextmanager
def own_folders() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cmsfs-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        for variable in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
            folder = root / variable.lower()
            folder.mkdir(mode=0o700)
            os.environ[f"XDG_{variable}"] = str(folder)
        yield root
