"""Reads through a real mount while the network and the service fail: right bytes, or an errno in time.

The service is one process, the daemon another, and between them the relay of `faults` breaks every third
download in some way.  The cache is small, so that blocks are evicted and fetched again all the time, and
files get new versions meanwhile.
"""

import errno
import hashlib
import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs import config
from cmsfs.auth import connect
from cmsfs.client.content.uploads import BytesSource
from cmsfs.models import base
from cmsfs.models.content import uploads
from tests.support import faults
from tests.support.mounted_drive import MountedDrive
from tests.support.patience import Patience, until
from tests.support.server_process import ServerProcess

KIB = 1024
MIB = 1024 * KIB
SIZES = [1, 3_000, 128 * KIB - 1, 128 * KIB + 1, MIB, MIB + 1, 3 * MIB + 77, 9 * MIB]
NETWORK_SECONDS = 2.0
FAULTS = 5  # less would prove little
CLEAN = {errno.ETIMEDOUT, errno.ENETDOWN, errno.EIO, errno.ESTALE}


class Faulty:
    """The service, the relay before it, and every version of every file."""

    def __init__(self, server: Any, seed: int) -> None:
        self.dice = random.Random(seed)
        self.versions: dict[str, list[bytes]] = {}
        self.ids: dict[str, str] = {}
        self.broken = True
        self.once: dict[str, Any] = {}  # the fault of a file's next download
        self.plan = faults.Plan(self._fate)
        self._server = server
        self.port, self.credentials = self._server.port, self._server.credentials
        self._up = threading.Event()
        self._down = trio.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._relay,))
        self._thread.start()
        self._up.wait(10)

    async def _relay(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with faults.running("127.0.0.1", self.port, self.plan) as relay:
            self.relayed = relay.port
            self._up.set()
            await self._down.wait()

    def close(self) -> None:
        self._token.run_sync_soon(self._down.set)
        self._thread.join(10)
        if isinstance(self._server, ServerProcess):
            self._server.stop()

    def _fate(self, method: str, target: str) -> Any:
        name = next((name for name, ident in self.ids.items() if f"/{ident}/content" in target), None)
        if name in self.once:
            return self.once.pop(name)
        if "/content" not in target or not self.broken or self.dice.random() > 0.35:
            return None
        after = self.dice.choice([0, 1, 1000, 128 * KIB, 200_000, MIB, 5 * MIB])
        choices = [
            faults.Reset(after),
            faults.Stall(after),
            faults.Short(after),
            faults.Short(after, hidden=True),
        ]
        choices += [faults.Reset(before=True), faults.UNAVAILABLE, faults.TOO_MANY, faults.Answer(500)]
        if name is not None and len(self.versions[name][-1]) <= MIB:
            # A larger file is checked when the last of it has come, and parts of it are read before that.
            choices += [faults.Corrupt(self.dice.randrange(len(self.versions[name][-1])))] * 2
        return self.dice.choice(choices)

    def settings(self, port: int) -> dict[str, str]:
        url = f"http://127.0.0.1:{port}"
        secret = Path(os.environ["XDG_CONFIG_HOME"]) / "secret"
        secret.write_text(self.credentials["client_secret"])
        return {
            "CMSFS_PROFILE": "specification",
            "CMSFS_BASE_URL": f"{url}/2.0",
            "CMSFS_UPLOAD_URL": f"{url}/api/2.0",
            "CMSFS_AUTH_URL": url,
            "CMSFS_CLIENT_ID": self.credentials["client_id"],
            "CMSFS_SUBJECT_ID": self.credentials["user_id"],
            "CMSFS_CLIENT_SECRET_FILE": str(secret),
            "CMSFS_NETWORK_SECONDS": str(NETWORK_SECONDS),
            "CMSFS_CACHE_BYTES": str(6 * MIB),
            "CMSFS_POLL_SECONDS": "0.3",
            "CMSFS_IDLE_POLL_SECONDS": "0.3",
        }

    def upload(self, names: list[str]) -> None:
        """A new version of each, past the relay."""

        async def run() -> None:
            async with connect.open_backend(config.load()) as client:
                for name in names:
                    size = SIZES[int(name[1:]) % len(SIZES)]
                    data = self.dice.randbytes(size)
                    source, sha1 = BytesSource(data), hashlib.sha1(data).hexdigest()
                    self.versions.setdefault(name, []).append(data)
                    if name in self.ids:
                        await client.uploads.new_version(self.ids[name], source, sha1=sha1)
                    else:
                        wish = uploads.UploadAttributes(name=name, parent=base.Reference(id="0"))
                        self.ids[name] = (await client.uploads.new_file(wish, source, sha1=sha1)).id

        with pytest.MonkeyPatch.context() as patch:
            for key, value in self.settings(self.port).items():
                patch.setenv(key, value)
            trio.run(run)


@pytest.fixture
def faulty(
    tmp_path: Path, processes: object, stopped: MountedDrive, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Faulty]:
    made = Faulty(processes or ServerProcess(tmp_path / "served").start(), seed=11)
    try:
        made.upload([f"f{number}" for number in range(len(SIZES))])
        for key, value in made.settings(made.relayed).items():
            monkeypatch.setenv(key, value)
        stopped.top.mkdir()
        stopped.cmsfs("mount", stopped.top)
        yield made
    finally:
        made.broken = False
        stopped.cmsfs("umount", stopped.top, "--force", check=False)
        made.close()


def read_some(top: Path, faulty: Faulty, name: str) -> tuple[int, int]:
    """Reads of one handle: how many were right, how many failed cleanly; all of them of one version."""
    dice = faulty.dice
    right = failed = 0
    candidates = faulty.versions[name]
    size = len(candidates[-1])
    fd = os.open(top / name, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # what the kernel has is nothing new
        for _ in range(dice.randrange(1, 5)):
            offset = dice.randrange(size) if dice.random() < 0.7 else 0
            length = dice.choice([1, 4096, 65_536, 300_000, size])
            # A read of the kernel's is one wait for each of its requests, side by side.
            patience = Patience(2 * NETWORK_SECONDS + 4)
            try:
                found = os.pread(fd, length, offset)
            except OSError as error:
                assert error.errno in CLEAN, error
                failed += 1
            else:
                right += 1
                candidates = [data for data in candidates if data[offset : offset + len(found)] == found]
                assert candidates, f"{name}: {len(found)} bytes at {offset} are of no version, or of two"
                assert found, f"{name} is cut short at {offset}"
            assert patience.left(), patience
    finally:
        os.close(fd)
    return right, failed


def run(top: Path, faulty: Faulty, rounds: int) -> tuple[int, int]:
    right = failed = 0
    # What is fetched, and so what can fail, depends on what was read ahead and is still there: a run goes on
    # until it proves something.
    for number in range(10 * rounds):
        one, two = read_some(top, faulty, faulty.dice.choice(list(faulty.ids)))
        right, failed = right + one, failed + two
        if number % 9 == 8:
            faulty.upload([faulty.dice.choice(list(faulty.ids))])
        if number + 1 >= rounds and faulty.plan.faults >= FAULTS and right > failed:
            break
    return right, failed


def whole(path: Path, faulty: Faulty) -> bool:
    with suppress(OSError):
        return path.read_bytes() == faulty.versions[path.name][-1]
    return False


def check_recovery(top: Path, faulty: Faulty) -> None:
    """Once nothing fails any more, every file is what it is."""
    faulty.broken = False
    for name in faulty.ids:
        until(lambda name=name: whole(top / name, faulty), 60, f"{name} is not to be had")  # type: ignore[misc]


def check_wrong_whole(top: Path, faulty: Faulty) -> None:
    """A large file of which a part comes wrong: nobody reads it to its end, and then it is had right."""
    faulty.upload(["f14"])
    path, data = top / "f14", faulty.versions["f14"][-1]
    sha1 = hashlib.sha1(data).hexdigest().encode()
    until(lambda: path.exists() and os.getxattr(path, "user.cms.sha1") == sha1, 30)
    faulty.once["f14"] = faults.Corrupt(100)
    with pytest.raises(OSError, match="Input/output error"), path.open("rb") as file:
        while file.read(KIB * 64):
            pass
    assert not faulty.once
    assert path.read_bytes() == data


def test_faulty_reads_are_right_or_fail(stopped: MountedDrive, faulty: Faulty) -> None:
    right, failed = run(stopped.top, faulty, 18)
    assert faulty.plan.faults >= FAULTS
    assert right > failed
    check_recovery(stopped.top, faulty)
    check_wrong_whole(stopped.top, faulty)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_faulty_reads_are_right_or_fail_long(stopped: MountedDrive, faulty: Faulty, seed: int) -> None:
    faulty.dice.seed(seed)
    run(stopped.top, faulty, 30)
    check_recovery(stopped.top, faulty)
