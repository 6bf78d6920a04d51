"""Who changed what: attributes and commands on a real mount, for changes that other people make elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until


def test_others_changes_are_told_and_start_a_command(stopped: MountedDrive, api: Api, tmp_path: Path) -> None:
    colleague = api.colleague()
    folder = api.folder("plans")
    file = api.file("report.txt", b"first\n", folder)
    api.share("folder", folder, colleague.user)
    path, said = stopped.top / "plans/report.txt", tmp_path / "said"
    until(path.exists)

    # By where it is on this machine, as a person at a prompt names it.
    command = f'echo "$CMSFS_BY: $CMSFS_PATH" >> {said}; cat {path} >> {said}'
    watching = subprocess.Popen(
        [sys.executable, "-m", "cmsfs", "watch", stopped.top / "plans", "--count", "1", "--exec", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stderr is not None
    assert watching.stderr.readline() == "Watching /plans; Ctrl+C ends it.\n"
    colleague.write(file, b"second\n")
    colleague.close()
    printed, _ = watching.communicate(timeout=60)
    assert "Cy Tester" in printed
    assert "/plans/report.txt" in printed
    assert said.read_text().splitlines()[0] == "Cy Tester: /plans/report.txt"

    until(lambda: path.read_text() == "second\n")
    newest = stopped.cmsfs("log", stopped.top / "plans").stdout.splitlines()[-1]
    assert "Cy Tester" in newest
    assert "report.txt" in newest
    lines = os.getxattr(path, "user.cms.history").decode().splitlines()
    assert [("Cy Tester" in line) for line in lines].count(True) == 1, lines
    assert len(lines) > 1
