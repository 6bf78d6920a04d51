"""The contenders of the table: the host's disk, a passthrough, rclone, curl and the drive."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import rival
from tests.bench.table.stage import TOP, Stage, drop_caches, memory, processor, started

STARTS_WITHIN = 60.0
LOOKS_EVERY = 0.05
STILL_FOR = 0.5


class Contender:
    """A place for files; this one is the plain folder.

    What it keeps of the service is forgotten when it is mounted, unless that is told to keep it.
    """

    name = "host"
    remote = False

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.top = stage.plain
        self.pid = 0
        # Processor time of ended processes, and the peak memory of one.
        self._used = self._most = 0.0

    @contextlib.contextmanager
    def mounted(self, *, keep: bool = False) -> Iterator[Path]:
        """Return its folder, with cold kernel caches."""
        drop_caches()
        yield self.top

    def processor(self) -> float:
        """Return the processor time so far in seconds."""
        return self._used + (processor(self.pid) if self.pid else 0.0)

    def memory(self) -> float:
        """Return the peak memory in MB."""
        return max(self._most, memory(self.pid) if self.pid else 0.0)

    def uploaded(self) -> float:
        """Wait until everything is uploaded, and return the time when it was."""
        return time.perf_counter()

    def cached(self) -> list[Path]:
        """Return the files in which it caches contents."""
        return [path for path in self.stage.plain.rglob("*") if path.is_file()]

    @contextlib.contextmanager
    def _running(self, command: list[str], **more: Any) -> Iterator[None]:
        self.top.mkdir(exist_ok=True)
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | more
        with started(command, subprocess.DEVNULL, **more) as process:
            until = time.monotonic() + STARTS_WITHIN
            while not os.path.ismount(self.top):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{self.name} does not mount")
                time.sleep(LOOKS_EVERY)
            self.pid = process.pid
            try:
                yield
            finally:
                self._used, self._most = self.processor(), self.memory()
                self.pid = 0
                self._unmount()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)

    def _unmount(self) -> None:
        subprocess.run(["fusermount3", "-u", "-z", str(self.top)], capture_output=True)


class Passthrough(Contender):
    """The plain folder behind the smallest possible pyfuse3 file system."""

    name = "passthrough"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.top = stage.root / "passthrough"

    @contextlib.contextmanager
    def mounted(self, *, keep: bool = False) -> Iterator[Path]:
        drop_caches()
        script = Path(__file__).resolve().parents[1] / "passthrough.py"
        with self._running([sys.executable, str(script), str(self.stage.plain), str(self.top)]):
            yield self.top


class RcloneMount(Contender):
    """rclone with the flags that its documentation recommends, and more parallel uploads."""

    name = "rclone"
    remote = True

    def __init__(self, stage: Stage, binary: Path) -> None:
        super().__init__(stage)
        self.top = stage.root / "rclone"
        self._binary = binary
        self._cache = stage.root / "rclone-cache"

    @contextlib.contextmanager
    def mounted(self, *, keep: bool = False) -> Iterator[Path]:
        if not keep:
            shutil.rmtree(self._cache, ignore_errors=True)
        drop_caches()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._control = free.getsockname()[1]
        login = {"access_token": self.stage.token(), "token_type": "bearer", "expiry": "2099-01-01T00:00:00Z"}
        # Not in the environment: the name of its cache would then depend on the token.
        config = self.stage.root / "rclone.conf"
        config.write_text(f"[rival]\ntype = box\ntoken = {json.dumps(login)}\n")
        environment = os.environ | {
            "HTTPS_PROXY": f"http://127.0.0.1:{self.stage.line}",
            "NO_PROXY": "",
            "RCLONE_CONFIG": str(config),
        }
        command = [str(self._binary), "mount", "rival:", str(self.top), "--ca-cert", str(self.stage.ca_file)]
        command += ["--cache-dir", str(self._cache), *rival.FLAGS, "--vfs-write-back", "1s"]
        command += ["--transfers", "16", "--checkers", "16"]
        command += ["--rc", "--rc-no-auth", "--rc-addr", f"127.0.0.1:{self._control}"]
        with self._running(command, env=environment):
            yield self.top

    def ask(self, what: str, **how: Any) -> dict[str, Any]:
        """Run one of its own commands."""
        url = f"http://127.0.0.1:{self._control}/{what}"
        request = urllib.request.Request(url, json.dumps(how).encode(), {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def uploaded(self) -> float:
        # A closed file enters its queue a little later, so the queue has to stay empty for a while.
        done = looked = time.perf_counter()
        while looked - done < STILL_FOR:
            kept = self.ask("vfs/stats")["diskCache"]
            looked = time.perf_counter()
            if kept["uploadsInProgress"] or kept["uploadsQueued"]:
                done = looked
            time.sleep(LOOKS_EVERY)
        return done

    def cached(self) -> list[Path]:
        return [path for path in (self._cache / "vfs").rglob("*") if path.is_file()]


class Drive(Contender):
    """The drive with its default settings, except that mass deletions need no confirmation."""

    name = "cmsfs"
    remote = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.top = stage.root / "drive"
        self._home = stage.root / "home"

    @contextlib.contextmanager
    def mounted(self, *, keep: bool = False) -> Iterator[Path]:
        if not keep:
            shutil.rmtree(self._home, ignore_errors=True)
        drop_caches()
        self.top.mkdir(exist_ok=True)
        environment = self._environment()
        command = [sys.executable, "-m", "cmsfs", "mount", "--foreground", "--no-systemd", str(self.top)]
        with self._running(command, env=environment):
            yield self.top

    def cmsfs(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *words],
            capture_output=True,
            text=True,
            cwd=TOP,
            env=self._environment(),
        )
        if done.returncode:
            raise SystemExit(f"cmsfs {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cmsfs("status", "--json"))
        return found

    def uploaded(self) -> float:
        self.cmsfs("sync")
        return time.perf_counter()

    def cached(self) -> list[Path]:
        return list((self._home / "cache").glob("cmsfs/*/blocks/??/*"))

    def _unmount(self) -> None:
        self.cmsfs("umount", "--force", "--drain", "0", str(self.top))

    def _environment(self) -> dict[str, str]:
        for kind in ("config", "data", "state", "cache", "runtime"):
            (self._home / kind).mkdir(parents=True, exist_ok=True, mode=0o700)
        secret, config = self._home / "secret", self._home / "config" / "cmsfs" / "config.toml"
        if not config.exists():
            secret.write_text(self.stage.credentials["client_secret"])
            secret.chmod(0o600)
            config.parent.mkdir()
        url = f"https://127.0.0.1:{self.stage.line}"
        config.write_text(
            f'account = "bench"\nprofile = "server"\nnotifications = false\nguard_deletions = 0\n'
            f'base_url = "{url}/2.0"\nupload_url = "{url}/api/2.0"\nauth_url = "{url}"\n'
            f'client_id = "{self.stage.credentials["client_id"]}"\nclient_secret_file = "{secret}"\n'
            f'subject_id = "{self.stage.credentials["user_id"]}"\nca_file = "{self.stage.ca_file}"\n'
        )
        places = {f"XDG_{kind.upper()}_HOME": str(self._home / kind) for kind in ("config", "data", "state")}
        places |= {
            "XDG_CACHE_HOME": str(self._home / "cache"),
            "XDG_RUNTIME_DIR": str(self._home / "runtime"),
        }
        return os.environ | places


class Curl(Contender):
    """`curl` over the same line: the transfer without a file system."""

    name = "curl"
    remote = True

    def fetch(self, names: list[str], *, at_once: int = 1, one_by_one: bool = False) -> list[float]:
        """Return the seconds of each; `at_once` of them in parallel."""
        url = f"https://127.0.0.1:{self.stage.line}/2.0/files"
        lines = [f'url = "{url}/{self.stage.ids[one]}/content"\noutput = "/dev/null"' for one in names]
        words = ["curl", "-sS", "--cacert", str(self.stage.ca_file), "-H", "prefer: return=representation"]
        words += ["-H", f"authorization: Bearer {self.stage.token()}", "-K", "-"]
        if at_once > 1:
            words += ["--parallel", "--parallel-max", str(at_once)]
        before = os.times()
        done = subprocess.run(
            words,
            input="\n".join(['write-out = "%{time_total} %{response_code}\\n"', *lines]),
            capture_output=True,
            text=True,
            check=True,
        )
        after = os.times()
        self._used += after.children_user - before.children_user
        self._used += after.children_system - before.children_system
        found = [line.split() for line in done.stdout.splitlines()]
        if not all(code in ("200", "206") for _, code in found):
            raise SystemExit(done.stdout[:500])
        return [float(took) for took, _ in found]
