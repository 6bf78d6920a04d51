"""`.search` on a real mount, with the tools that people use; one drive for all of it."""

import errno
import os
import re
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive


def _searches(drive: MountedDrive) -> int:
    return int(drive.status()["requests"].get("search", 0))


def test_searches_with_ordinary_tools(drive: MountedDrive, tmp_path: Path) -> None:
    sh, top = drive.sh, drive.top
    for name in ("Harbour/Leases", "Harbour/Old"):
        (top / name).mkdir(parents=True)
    (top / "Harbour/Leases/zanzibar.txt").write_text("the lease of the harbour\n")
    (top / "Harbour/Old/zanzibar.txt").write_text("an older lease\n")
    drive.sync()

    # Hidden, and nothing that goes over the tree comes there.
    assert ".search" not in {path.name for path in top.iterdir()}
    assert sh("find . -name .search").splitlines() == []
    # The folder itself, and names that are only looked up, cost no request.
    before = _searches(drive)
    assert sh("ls -la .search | tail -n +4") == ""
    sh("test -d .search/z; test -d .search/zan; test ! -e .search/.git; test ! -e .search/desktop.ini")
    assert _searches(drive) == before

    found = sh("ls .search/'zanzibar type:file'").splitlines()
    assert found == ["zanzibar (Old).txt", "zanzibar.txt"] or found == [
        "zanzibar (Leases).txt",
        "zanzibar.txt",
    ]
    assert _searches(drive) == before + 1
    assert sh("ls -l .search/'zanzibar type:file' >&2; cat .search/'zanzibar in:Harbour\\Old'/*") == (
        "an older lease\n"
    )
    assert sh("readlink .search/'zanzibar in:Harbour\\Old ext:txt'/*") == "../../Harbour/Old/zanzibar.txt\n"
    assert sh("cd .search/'zanzibar ext:txt'; readlink -f zanzibar.txt").startswith(f"{top}/Harbour/")
    # What follows links, and what copies what they lead to.
    assert sh("find -L .search/'zanzibar ext:txt' -type f | wc -l") == "2\n"
    assert sh("grep -rh lease .search/'zanzibar ext:txt'/ | sort") == ""
    assert sh("grep -Rh lease .search/'zanzibar ext:txt'/ | sort").splitlines() == [
        "an older lease",
        "the lease of the harbour",
    ]
    copies = tmp_path / "copies"
    sh(f"cp -rL .search/'zanzibar ext:txt' {copies}; rsync -aL .search/'zanzibar ext:txt'/ {copies}")
    assert sorted(path.read_text() for path in copies.iterdir()) == [
        "an older lease\n",
        "the lease of the harbour\n",
    ]
    total = "getfattr --only-values -n user.cms.search.total .search/'zanzibar ext:txt'"
    assert sh(total) == "2"

    # What cannot be understood, is not there, or may not be done.
    for name, number in (("size:big", errno.EINVAL), ("in:Nowhere", errno.ENOENT)):
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            list((top / ".search" / name).iterdir())
    with pytest.raises(PermissionError):
        (top / ".search/zanzibar/zanzibar.txt").unlink()
    with pytest.raises(FileExistsError):
        (top / ".search/new").mkdir()  # any name is a search already

    # Kept under a name, by the command or by hand.
    drive.cmsfs("search", "--save", "Leases", "lease", "in:Harbour", "type:file")
    assert sh("ls .search") == "Leases\n"
    assert sh("ls .search/Leases | wc -l") == "2\n"
    sh("rmdir .search/Leases; ls .search >&2")
    assert drive.cmsfs("search", "--saved").stdout == ""

    # Renamed and deleted here: at once, whatever the service knows.
    (top / "Harbour/Old/zanzibar.txt").rename(top / "Harbour/zanzibar 2.txt")
    (top / "Harbour/Leases/zanzibar.txt").unlink()
    assert sh("readlink .search/'zanzibar AND lease'/*") == "../../Harbour/zanzibar 2.txt\n"
    assert drive.cmsfs("search", "zanzibar", "ext:txt").returncode == 0

    # The words of a document: only if the service has it as it is here.
    drive.cmsfs("pause")
    (top / "Harbour/new.txt").write_text("new")
    (top / "Harbour/.~lock.new.txt#").write_text("mine")
    for name, why in (
        ("new.txt", "has unsynced changes (waiting)"),
        (".~lock.new.txt#", "exists only locally"),
    ):
        refused = drive.cmsfs("text", top / "Harbour" / name, check=False)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"/Harbour/{name} {why}" in refused.stderr
    drive.cmsfs("resume")


def test_metadata_is_browsed_and_set_with_ordinary_tools(shared: MountedDrive) -> None:
    top, by = shared.top, f"{shared.mountpoint}/.by"
    (top / "a.txt").write_text("a\n")
    (top / "b.txt").write_text("b\n")
    shared.sync()
    assert shared.sh(f"ls -A {shared.mountpoint} | grep -cx .by || true") == "0\n"
    assert "project" in shared.sh(f"ls {by}").splitlines()
    # As a file manager and a person at a prompt do.
    shared.sh(f"mv a.txt b.txt {by}/project/phase=plan/lead=Quay%2FEast/")
    shared.sh(f"test -f a.txt && mv -n a.txt {by}/project/budget=12.5/")
    assert shared.sh(f"cat {by}/project/lead=Quay%2FEast/*.txt") == "a\nb\n"
    assert shared.sh(f"ls {by}/project/lead=Quay%2FEast") == "a.txt\nb.txt\nbudget=12.5\n"
    assert shared.sh("getfattr --only-values -n user.cms.metadata.enterprise.project.budget a.txt") == "12.5"
    shared.sh(f"mv {by}/project/phase=plan/b.txt {by}/project/phase=build/")
    total = f"getfattr --absolute-names --only-values -n user.cms.by.total {by}/project/lead=Quay%2FEast"
    assert shared.sh(f"{total}/phase=build; {total}/phase=plan; {total}") == "112"
    for path, number in (("project/phase=lost", errno.ENOENT), ("nothing", errno.ENOENT)):
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            list(Path(f"{by}/{path}").iterdir())
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.EINVAL))):
        (top / "a.txt").rename(f"{by}/project/budget=1..9/a.txt")
    with pytest.raises(PermissionError):
        Path(f"{by}/project/lead=Quay%2FEast/a.txt").unlink()
