"""Several accounts at once: a daemon each, and nothing of one in the other."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs import config, mounts
from tests.cli.conftest import settings_of

pytestmark = pytest.mark.usefixtures("fuse")


def sh(script, *arguments):
    done = subprocess.run(
        ["sh", "-euc", script, "sh", *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.fixture
def places(tmp_path: Path, cmsfs) -> Iterator[dict[str, Path]]:
    found = {name: tmp_path / name for name in ("work", "home")}
    for place in found.values():
        place.mkdir()
    yield found
    for place in found.values():
        if mounts.find(place):
            cmsfs("umount", "--force", "--drain", "0", place)
        while mounts.find(place):
            mounts.detach(place)


@pytest.fixture
def accounts(serving, private_folders: Path) -> None:
    """Two accounts, work and home, on a service each."""
    folder = private_folders / "config" / "cmsfs"
    folder.mkdir(parents=True)
    lines = []
    for name in ("work", "home"):
        lines += [f"[accounts.{name}]\n"]
        lines += [settings_of(serving(), folder / f"secret-{name}", profile="server")]
    (folder / "config.toml").write_text("".join(lines), encoding="utf-8")


def test_two_accounts_are_independent(cmsfs, accounts, places, leftovers):
    before = set(leftovers())  # the servers
    for name, place in places.items():
        done = cmsfs("--account", name, "mount", place)
        assert (done.returncode, done.stderr) == (0, ""), done
    for name, place in places.items():
        sh('echo "$1" > "$2/$1.txt"', name, place)
        assert cmsfs("--account", name, "sync").returncode == 0
    for name, place in places.items():
        other = "home" if name == "work" else "work"
        names = sh('ls "$1"', place).splitlines()
        assert f"{name}.txt" in names
        assert f"{other}.txt" not in names
        # The service has what its own account wrote.
        assert cmsfs("--account", name, "get", f"/{name}.txt", "-").stdout == f"{name}\n"
        assert cmsfs("--account", name, "get", f"/{other}.txt", "-").returncode != 0

    # Which one is meant has to be said, or follows from the place.
    done = cmsfs("sync")
    assert done.returncode == 2
    assert "home, work" in done.stderr
    listed = cmsfs("status").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [[name, str(places[name])] for name in ("home", "work")]
    found = {name: json.loads(cmsfs("--account", name, "status", "--json").stdout) for name in places}
    assert {name: (one["account"], one["mountpoint"]) for name, one in found.items()} == {
        name: (name, str(place)) for name, place in places.items()
    }
    assert found["work"]["pid"] != found["home"]["pid"]

    # What one is told is not the other's business.
    assert cmsfs("--account", "work", "pause").returncode == 0
    assert cmsfs("--account", "home", "pin", "/home.txt").returncode == 0
    states = [json.loads(cmsfs("--account", name, "status", "--json").stdout) for name in ("work", "home")]
    assert [one["health"]["state"] for one in states] == ["paused", "online"]
    assert "Nothing is pinned" in cmsfs("--account", "work", "pins").stdout
    assert cmsfs("--account", "home", "unpin", "/home.txt").returncode == 0

    # Each has its state by its name, and ends alone.
    assert config.Paths("work").replica_db.exists()
    assert config.Paths("home").replica_db.exists()
    assert cmsfs("umount", places["work"]).returncode == 0
    assert sh('cat "$1/home.txt"', places["home"]) == "home\n"
    assert cmsfs("umount").returncode == 0
    assert set(leftovers()) == before
