"""Which document a lock file stands for."""

import pytest

from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.heuristics import lockfiles
from tests.vfs.conftest import Drive


@pytest.mark.parametrize(
    ("lock", "stands_for"),
    [
        (".~lock.report.odt#", "report.odt"),
        ("~$report.odt", "report.odt"),  # a short name is kept whole
        ("~$arterly figures.docx", "quarterly figures.docx"),
        (".~lock.nothing.odt#", None),
        ("~$nothing.docx", None),
        ("~$me.docx", None),  # same.docx or name.docx
        (".~lock.folder#", None),
        ("report.odt", None),
    ],
)
async def test_lock_file_names_its_document(drive: Drive, lock: str, stands_for: str | None):
    for name in ("report.odt", "quarterly figures.docx", "same.docx", "name.docx"):
        await drive.write_file(name, b"x")
    await drive.fs.mkdir(ROOT, "folder", 0o755)
    found = lockfiles.document(drive.db, ROOT, lock)
    assert (found.name if found else None) == stands_for


@pytest.mark.parametrize("name", [".~lock.a.odt#", "~$a.docx"])
def test_lock_files_are_known_by_name(name: str):
    assert lockfiles.is_lock_file(name)
    assert not lockfiles.is_lock_file(name.strip(".~$"))
