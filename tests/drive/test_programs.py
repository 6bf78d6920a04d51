"""Programs that people use, on the drive."""

import shutil
from pathlib import Path
from typing import Any

import pytest


def needs(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    assert not missing, f"the test set-up lacks {missing}"


def test_git_keeps_a_repository(drive: Any, sources: Path) -> None:
    needs("git")
    drive.sh(
        f"""
        mkdir repo; cd repo; git init -q .; git config user.name n; git config user.email e@example.com
        cp -r {sources}/json {sources}/email .; git add .; git commit -qm one
        sed -i s/import/IMPORT/ json/*.py; git commit -qam two; git gc -q
        git fsck --strict; git status --porcelain; test -z "$(git status --porcelain)"
        git checkout -q HEAD~1; git log --oneline
        """
    )
    drive.sync()
    drive.stop()
    drive.start()
    assert drive.sh("cd repo; git fsck --strict 2>&1; git diff --stat HEAD") == ""
    drive.sh(f"diff -r {sources}/json repo/json")


def test_editors_and_sed_change_files_in_place(drive: Any) -> None:
    needs("vim")
    drive.sh("printf 'one\\ntwo\\n' > text; vim -es -u NONE -c '%s/one/ONE/' -c wq text; cat text")
    drive.sync()
    remote_id = drive.sh("getfattr --only-values -n user.cms.id text")
    drive.sh("sed -i s/two/TWO/ text; sed -i 1d text")
    assert drive.sh("cat text") == "TWO\n"
    drive.sync()
    assert drive.sh("getfattr --only-values -n user.cms.id text") == remote_id
    assert drive.sh("getfattr --only-values -n user.cms.sync text") == "synced"


def test_rsync_copies_both_ways_and_finds_nothing_to_do_the_second_time(
    drive: Any, sources: Path, tmp_path: Path, same: Any
) -> None:
    needs("rsync")
    drive.sh(f"rsync -a {sources}/ there/")
    same(sources, drive.top / "there")
    drive.sync()
    again = drive.sh(f"rsync -ai --omit-dir-times {sources}/ there/")
    assert again == ""
    drive.sh(f"rsync -a there/ {tmp_path}/back/")
    same(sources, tmp_path / "back")


def test_tar_goes_round(drive: Any, sources: Path, same: Any) -> None:
    drive.sh(f"tar -C {sources} -cf a.tar .; mkdir out; tar -C out -xf a.tar; tar -C out -df a.tar")
    same(sources, drive.top / "out")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_sqlite_keeps_a_database_whole(drive: Any, mode: str) -> None:
    needs("sqlite3")
    script = f"""
    sqlite3 data.db 'PRAGMA journal_mode={mode}; CREATE TABLE t(a, b);'
    for i in 1 2 3 4 5; do
      sqlite3 data.db "INSERT INTO t SELECT value, hex(randomblob(50)) FROM generate_series(1, 200);"
    done
    sqlite3 data.db 'PRAGMA integrity_check; SELECT count(*) FROM t;'
    """
    assert drive.sh(script).splitlines()[-2:] == ["ok", "1000"]
    drive.sync()
    drive.stop()
    drive.start()
    assert drive.sh("sqlite3 data.db 'PRAGMA integrity_check; SELECT count(*) FROM t;'") == "ok\n1000\n"


def test_a_thousand_files_are_removed_and_stay_removed(drive: Any) -> None:
    drive.sh("mkdir d; cd d; for i in $(seq 300); do echo $i > f$i; done")
    drive.sync()
    drive.sh("rm -r d; mkdir d; echo new > d/f1")
    drive.sync()
    drive.stop()
    drive.start()
    assert drive.sh("ls d; cat d/f1") == "f1\nnew\n"
