"""The drive changes its process under programs that use it, and they notice a pause."""

from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive
from tests.support.programs_at_work import at_work, make_source, working

UPGRADES = 10


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_programs_go_on_across_upgrades(drive: MountedDrive, tmp_path: Path) -> None:
    pid = drive.status()["pid"]
    with working() as programs:
        check = at_work(programs, drive, make_source(tmp_path / "source"))
        for _ in range(UPGRADES):
            programs.await_round()
            started = drive.status()["started"]
            drive.cmsfs("upgrade", seconds=200)
            assert drive.status()["started"] > started
        programs.await_round()
    print(programs.told())  # noqa: T201  (with -s: what an upgrade costs)
    check()
    assert drive.status()["pid"] != pid
    drive.sync()
    assert not drive.status()["queue"]["ops"]
