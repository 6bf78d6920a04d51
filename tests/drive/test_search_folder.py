"""`.search` on a real mount, with the tools that people use; one drive for all of it."""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from cmsfs import config
from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until


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
    # As of every folder that does not exist; the log says which there are.
    assert "Not a directory" in shared.sh(f"mv a.txt {by}/project/phase=lost/ 2>&1 || true")
    assert "phase is one of 'plan', 'build'" in config.Paths("default").log.read_text()
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.EINVAL))):
        (top / "a.txt").rename(f"{by}/project/budget=1..9/a.txt")
    with pytest.raises(PermissionError):
        Path(f"{by}/project/lead=Quay%2FEast/a.txt").unlink()


def test_metadata_of_many_items_is_browsed_by_ranges_and_dates(drive: MountedDrive) -> None:
    """Numbers as ranges, dates by year, month and day; each holds what it says, and all are counted."""
    by, key = f"{drive.mountpoint}/.by/project", "user.cms.metadata.enterprise.project"
    budgets = {f"{number:02}.txt": number * number * 10 for number in range(1, 25)}
    dues = {name: f"{2024 + at % 3}-{at % 12 + 1:02}-{at % 28 + 1:02}" for at, name in enumerate(budgets)}
    (drive.top / "many").mkdir()
    for name in budgets:
        (drive.top / "many" / name).write_text(name)
    drive.sync()
    sets = [
        f"setfattr -n {key}.budget -v {budgets[name]} {name}; setfattr -n {key}.due -v {dues[name]} {name}"
        for name in budgets
    ]
    drive.sh("\n".join(sets), cwd=drive.top / "many")

    def items(place: str) -> list[str]:
        return [name for name in drive.sh(f"ls -A '{place}'").splitlines() if "=" not in name]

    def total(place: str) -> int:
        return int(drive.sh(f"getfattr --absolute-names --only-values -n user.cms.by.total '{place}'"))

    assert items(by) == [*budgets, "Plan.md"]
    ranges = [name for name in drive.sh(f"ls {by}").splitlines() if name.startswith("budget=")]
    assert all(".." in name for name in ranges), ranges
    found = [items(f"{by}/{name}") for name in ranges]
    assert sorted(name for one in found for name in one) == [*budgets, "Plan.md"], "each is in one of them"
    assert [total(f"{by}/{name}") for name in ranges] == [len(one) for one in found]
    # Entered by hand, both ends included, and open at one.
    for low, high in ((90, 1000), (0, 1000), (1000, 9999)):
        inside = [name for name, budget in budgets.items() if low <= budget <= high]
        assert items(f"{by}/budget={low}..{high}") == inside
    assert items(f"{by}/budget=..1000") == items(f"{by}/budget=0..1000")
    assert items(f"{by}/budget=5290..") == ["23.txt", "24.txt", "Plan.md"]

    due = [name for name in drive.sh(f"ls {by}").splitlines() if name.startswith("due=")]
    assert due == ["due=2024", "due=2025", "due=2026"]
    of_year = [name for name in budgets if dues[name].startswith("2025")]
    assert items(f"{by}/due=2025") == of_year
    months = [name for name in drive.sh(f"ls {by}/due=2025").splitlines() if name.startswith("due=")]
    assert months == sorted({f"due={dues[name][:7]}" for name in of_year})
    in_month = [name for name in of_year if dues[name].startswith(months[0][4:])]
    assert items(f"{by}/due=2025/{months[0]}") == items(f"{by}/{months[0]}") == in_month
    days = [name for name in drive.sh(f"ls {by}/{months[0]}").splitlines() if name.startswith("due=")]
    assert days == sorted({f"due={dues[name]}" for name in in_month})
    within = [name for name in budgets if "2024-11" <= dues[name][:7] <= "2025-04"]
    assert items(f"{by}/due=2024-11..2025-04") == within
    both = [name for name in within if budgets[name] >= 1000]
    assert items(f"{by}/due=2024-11..2025-04/budget=1000..") == both
    assert drive.sh(f"cat '{by}/due=2024-11..2025-04/budget=1000..'/*.txt") == "".join(both)


def test_search_without_a_network_with_ordinary_tools(stopped: MountedDrive, api: Api) -> None:
    sh, top = stopped.sh, stopped.top
    folder = api.folder("Harbour")
    for name, text in (
        ("lease.txt", "zanzibar\n"),
        ("berths.txt", "quay and lease\n"),
        ("never-read.txt", "lease\n"),
    ):
        number = api.file(name, text.encode(), folder)
    api.update("file", number, description="About zanzibar")
    until(lambda: len(list((top / "Harbour").glob("*"))) == 3)
    sh("cat Harbour/lease.txt Harbour/berths.txt > /dev/null")
    sh("getfattr -n user.cms.description Harbour/never-read.txt > /dev/null")
    assert api.server is not None
    api.server.stop()
    until(lambda: stopped.status()["health"]["state"] == "offline")
    # By name, by what is in those that are here, and by their attributes.
    assert sh("ls .search/lease") == "berths.txt\nlease.txt\n"
    assert sh("cat .search/quay/*") == "quay and lease\n"
    assert sh("readlink .search/'zanzibar type:file'/* | sort").splitlines() == [
        "../../Harbour/lease.txt",
        "../../Harbour/never-read.txt",
    ]
    partial = sh("getfattr --only-values -n user.cms.search.partial .search/lease")
    assert "the service was not asked" in partial
    assert stopped.cmsfs("search", "quay").stdout.count("berths.txt") == 1
    done = stopped.cmsfs("search", "quay", "--json")
    (item,) = json.loads(done.stdout)
    assert (item["type"], item["path"], item["size"]) == ("file", "/Harbour/berths.txt", 15)
    assert "the service was not asked" in done.stderr
