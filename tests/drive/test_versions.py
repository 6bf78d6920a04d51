"""The past of a file as a folder beside it, on a mount."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive


def listing(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_versions_folder_beside_the_file(drive: MountedDrive) -> None:
    file = drive.top / "plan.txt"
    for text in ("first\n", "second, longer\n", "third\n"):
        file.write_text(text)
        drive.sync()
    past = drive.top / "plan.txt@versions"
    # Nothing of it is in any listing, so nothing walks into it.
    assert past not in listing(drive.top)
    versions = listing(past)
    assert {one.read_text() for one in versions} == {"first\n", "second, longer\n"}
    assert all(one.suffix == ".txt" for one in versions)
    assert {one.stat().st_size for one in versions} == {6, 15}
    first = next(one for one in versions if one.stat().st_size == 6)
    told = drive.sh('getfattr -d -- "$(ls -d plan.txt@versions/* | head -1)"')
    assert "user.cms.sha1=" in told
    assert "user.cms.version=" in told

    # Ordinary tools.
    compared = subprocess.run(["diff", file, first], capture_output=True, text=True, check=False)
    assert compared.stdout.splitlines() == ["1c1", "< third", "---", "> first"]
    drive.sh("ls -l plan.txt@versions; cp -a plan.txt@versions copied; rm -r copied")
    with pytest.raises(PermissionError):
        first.write_text("history is not rewritten")
    with pytest.raises(PermissionError):
        first.unlink()

    # Brought back by a copy, as one more version of the same file.
    before = json.loads(drive.cmsfs("versions", "/plan.txt", "--json").stdout)
    shutil.copy(first, file)
    drive.sync()
    after = json.loads(drive.cmsfs("versions", "/plan.txt", "--json").stdout)
    assert file.read_text() == "first\n"
    assert len(after) == len(before) + 1
    # An open folder may be a moment old, a newly opened one is not.
    assert len(listing(past)) == 3

    # Only files have one; nothing can be made under such a name.
    (drive.top / "folder").mkdir()
    assert not (drive.top / "folder@versions").exists()
    assert not (drive.top / "nothing@versions").exists()
    (drive.top / "plan.txt@versions.txt").write_text("x")
    with pytest.raises(PermissionError):
        (drive.top / "folder@versions").write_text("mine")
