"""A drive on a service whose processes are killed and whose database is restarted, with a crowd beside it."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.support import postgres_server, site
from tests.support.mounted_drive import MountedDrive

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FILES = 120


@pytest.fixture
def made(tmp_path: Path) -> Iterator[site.Site]:
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    with postgres_server.running() as database:
        found = site.Site(database, tmp_path, 2)
        yield found
        found.stop()


@pytest.fixture
def drive(
    stopped: MountedDrive, made: site.Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MountedDrive]:
    """The first user's, at the first process."""
    secret = tmp_path / "secret"
    secret.write_text(site.SECRET)
    settings = {
        "PROFILE": "server",
        "BASE_URL": f"{made.urls[0]}/2.0",
        "UPLOAD_URL": f"{made.urls[0]}/api/2.0",
        "AUTH_URL": made.urls[0],
        "CLIENT_ID": site.CLIENT,
        "CLIENT_SECRET_FILE": str(secret),
        "SUBJECT_ID": made.user(site.LOGINS[0]),
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"CMSFS_{name}", value)
    stopped.top.mkdir(exist_ok=True)
    stopped.cmsfs("mount", stopped.top)
    yield stopped
    stopped.cmsfs("umount", stopped.top, "--force", check=False)


def _work(top: Path, dice: random.Random) -> dict[str, bytes]:
    """What a program leaves in a folder that it has made."""
    left: dict[str, bytes] = {}
    top.mkdir()
    for number in range(FILES):
        name, data = f"{number}.txt", dice.randbytes(dice.randrange(5000))
        (top / name).write_bytes(data)
        left[name] = data
        old = dice.choice(sorted(left))
        match dice.randrange(5):
            case 0:
                (top / old).rename(top / f"new {old}")
                left[f"new {old}"] = left.pop(old)
            case 1:
                (top / old).unlink()
                del left[old]
            case 2:
                left[old] = dice.randbytes(300)
                (top / old).write_bytes(left[old])
    return left


async def test_a_drive_goes_on_by_itself(drive: MountedDrive, made: site.Site) -> None:
    left: dict[str, bytes] = {}

    async def beside() -> None:
        left.update(await trio.to_thread.run_sync(_work, drive.top / "drive", random.Random(1)))

    await site.live(made, clients=8, rounds=6, each=20, chunked=0, beside=beside)
    await trio.to_thread.run_sync(drive.sync)
    assert {path.name: path.read_bytes() for path in (drive.top / "drive").iterdir()} == left
    assert await site.files(made, site.LOGINS[0], "drive") == left
