"""A tree of files that a script encrypts, on a real mount: noticed, held, and brought back to the byte."""

import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from cmsfs import config
from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until

# In place, under another name, or as a copy beside the original, which goes; and what deletes all.
SCRIPTS = {
    "encrypted": """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for place, name in enumerate(names):
        path = os.path.join(folder, name)
        with open(path, "r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(os.urandom(len(data)))
        if place % 2:
            os.rename(path, path + ".locked")
""",
    "deleted": """
import os, subprocess, sys
subprocess.run(["rm", "-rf", *(one.path for one in os.scandir(sys.argv[1]))], check=True)
""",
}


def _fill(drive: MountedDrive, then: Path, files: int) -> None:
    for number in range(files):
        path = then / f"part {number % 100}/report {number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what report {number} says\n" * 20)
    drive.sh(f"cp -r {then} tree", timeout=600)
    drive.cmsfs("sync", seconds=1200)


def _spoil(drive: MountedDrive, tmp_path: Path, way: str) -> int:
    """After how many files it was noticed."""
    script = tmp_path / "evil.py"
    script.write_text(SCRIPTS[way])
    subprocess.run([sys.executable, "-B", str(script), str(drive.top / "tree")], check=True, timeout=900)
    until(lambda: drive.status()["guard"] is not None, 120, "nothing was noticed")
    log = config.Paths("default").log.read_text()
    first = re.search(r"guard.* has (?:encrypted or renamed|deleted or emptied) ([\d,]+) files", log)
    assert first is not None, log
    until(lambda: not drive.status()["queue"]["running"], 120, "something is still being sent")
    return int(first[1].replace(",", ""))


def _bring_back(drive: MountedDrive, answer: str, moment: str, figures: dict[str, float]) -> None:
    command = ["guard", "undo", "--yes"]
    if answer == "restore":
        drive.cmsfs("guard", "allow")
        drive.cmsfs("sync", seconds=1200)
        command = ["restore", "/tree", "--as-of", moment, "--yes"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    # Started afresh, so that its processor time is counted.
    called = [sys.executable, "-B", "-m", "cmsfs", *command]
    subprocess.run(called, check=True, timeout=1200, cwd="/", capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures["wall"] = time.monotonic() - began
    figures["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _story(drive: MountedDrive, tmp_path: Path, files: int, way: str, answer: str) -> dict[str, float]:
    tree, then = drive.top / "tree", tmp_path / "then"
    _fill(drive, then, files)
    moment = datetime.now().astimezone().isoformat()
    figures: dict[str, float] = {"noticed after": _spoil(drive, tmp_path, way)}
    figures["held"] = drive.status()["guard"]["waiting"]
    plan = drive.cmsfs("restore", "/tree", "--as-of", moment, "--dry-run", "--json", seconds=600).stdout
    figures["reached"] = plan.count('"action"')
    _bring_back(drive, answer, moment, figures)
    drive.cmsfs("sync", seconds=600)
    done = subprocess.run(["diff", "-r", then, tree], capture_output=True, text=True, timeout=900)
    assert done.stdout == "", done.stdout[:500]
    left = drive.cmsfs("restore", "/tree", "--as-of", moment, "--dry-run", "--json", seconds=600).stdout
    assert '"action"' not in left, "the service has something else"
    return figures


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("way", "answer", "files"),
    [
        ("encrypted", "undo", 10_000),
        ("encrypted", "restore", 10_000),
        ("deleted", "undo", 10_000),
        ("deleted", "restore", 10_000),
    ],
)
def test_a_spoiled_tree_is_noticed_and_comes_back(
    drive: MountedDrive,
    tmp_path: Path,
    way: str,
    answer: str,
    files: int,
    record_property: Callable[[str, object], None],
) -> None:
    figures = _story(drive, tmp_path, files, way, answer)
    assert figures["reached"] < files // 2, figures
    for name, value in figures.items():
        record_property(name, value)


def test_guard_undo_brings_back_what_a_script_encrypted(drive: MountedDrive, tmp_path: Path) -> None:
    _fill(drive, tmp_path / "then", 60)
    _spoil(drive, tmp_path, "encrypted")
    said = drive.cmsfs("conflicts").stdout
    assert "encrypted or renamed" in said
    assert "report" in said
    seen = drive.cmsfs("guard", "undo", "--dry-run").stdout
    assert "contents of before" in seen
    drive.cmsfs("guard", "undo", "--yes")
    done = subprocess.run(
        ["diff", "-r", tmp_path / "then", drive.top / "tree"], capture_output=True, text=True
    )
    assert done.stdout == ""
    assert drive.status()["guard"] is None
    drive.cmsfs("sync")


# Without opening them.
CUT = "python3 -c 'import glob, os; [os.truncate(one, 0) for one in glob.glob(\"tree/*/*\")]'"


@pytest.mark.parametrize("how", [CUT, "for f in tree/*/*; do : > $f; done", "mv tree .trash/"])
def test_guard_undo_brings_back_what_was_emptied_or_thrown_away(
    stopped: MountedDrive, tmp_path: Path, how: str
) -> None:
    file = config.config_file()
    file.parent.mkdir(exist_ok=True)
    file.write_text("guard_deletions = 20\n")
    stopped.start()
    _fill(stopped, tmp_path / "then", 30)
    # By a program that ends: `undo` waits for that.
    subprocess.run(["sh", "-c", how], cwd=stopped.top, check=True, timeout=90)
    until(lambda: stopped.status()["guard"] is not None, 60, "nothing was noticed")
    until(lambda: not stopped.status()["queue"]["running"], 60, "something is still being sent")
    stopped.cmsfs("guard", "undo", "--yes")
    assert stopped.status()["guard"] is None
    done = subprocess.run(
        ["diff", "-r", tmp_path / "then", stopped.top / "tree"], capture_output=True, text=True
    )
    assert done.stdout + done.stderr == ""
    stopped.cmsfs("sync")
