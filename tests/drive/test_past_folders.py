"""`FOLDER@TIME` on a real mount: a folder as it was, against a copy that was made then."""

from datetime import datetime
from pathlib import Path

from tests.support.mounted_drive import MountedDrive

# Files with their sizes and times; the service knows microseconds.
FILES = "find . -type f -printf '%P %s %T@\\n' | sed 's/....$//' | sort"


def test_a_folder_as_it_was_with_ordinary_tools(shared: MountedDrive, tmp_path: Path) -> None:
    sh, then = shared.sh, tmp_path / "then"
    sh("mkdir -p plans/inner; seq 100000 > plans/inner/long; echo one | tee plans/one > plans/inner/two")
    sh("touch -d 2020-02-02 plans/one")
    shared.sync()
    sh(f"cp -a --no-preserve=xattr plans {then}")
    past = f"plans@{datetime.now().astimezone().isoformat()}"
    sh("cd plans; echo other > one; rm inner/two; mv inner other; shuf -n 9 other/long > x; mv x other/long")
    sh("echo new > plans/new")
    shared.sync()
    assert sh(f"diff -r {then} {past}; ls") == "plans\n"
    assert sh(FILES, cwd=shared.top / past) == sh(FILES, cwd=then)
    sh(f"ls -lR {past}; tail -c 5 {past}/inner/long")
    sh(f"cp -a {past} {tmp_path}/copy; diff -r {then} {tmp_path}/copy")
    assert "Read-only file system" in sh(f"touch {past}/new 2>&1 || true")
    assert "Read-only file system" in sh(f"rm -r {past}/inner 2>&1 || true")
    assert sh(f"getfattr --only-values -n user.cms.as_of {past}/one").startswith("20")
    # Deleted whole, it is still what it was; and one copies it back.
    sh("rm -r plans")
    shared.sync()
    sh(f"cp -a {past} plans; diff -r {then} plans")
