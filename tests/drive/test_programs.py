"""Programs that people use, on the drive."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.drive.conftest import Same
from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until


def needs(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    assert not missing, f"the test set-up lacks {missing}"


def test_git_keeps_a_repository(shared: MountedDrive, sources: Path) -> None:
    needs("git")
    shared.sh(
        f"""
        mkdir repo; cd repo; git init -q .; git config user.name n; git config user.email e@example.com
        cp -r {sources}/json {sources}/email .; git add .; git commit -qm one
        sed -i s/import/IMPORT/ json/*.py; git commit -qam two; git gc -q
        git fsck --strict; git status --porcelain; test -z "$(git status --porcelain)"
        git checkout -q HEAD~1; git log --oneline
        """
    )
    shared.sync()
    shared.stop()
    shared.start()
    assert shared.sh("cd repo; git fsck --strict 2>&1; git diff --stat HEAD") == ""
    shared.sh(f"diff -r {sources}/json repo/json")


def test_editors_and_sed_change_files_in_place(shared: MountedDrive) -> None:
    needs("vim")
    shared.sh("printf 'one\\ntwo\\n' > text; vim -es -u NONE -c '%s/one/ONE/' -c wq text; cat text")
    shared.sync()
    remote_id = shared.sh("getfattr --only-values -n user.cms.id text")
    shared.sh("sed -i s/two/TWO/ text; sed -i 1d text")
    assert shared.sh("cat text") == "TWO\n"
    shared.sync()
    assert shared.sh("getfattr --only-values -n user.cms.id text") == remote_id
    assert shared.sh("getfattr --only-values -n user.cms.sync text") == "synced"


def test_second_rsync_finds_nothing(shared: MountedDrive, sources: Path, tmp_path: Path, same: Same) -> None:
    needs("rsync")
    shared.sh(f"rsync -a {sources}/ there/")
    same(sources, shared.top / "there")
    shared.sync()
    again = shared.sh(f"rsync -ai --omit-dir-times {sources}/ there/")
    assert again == ""
    shared.sh(f"rsync -a there/ {tmp_path}/back/")
    same(sources, tmp_path / "back")


def test_tar_goes_round(shared: MountedDrive, sources: Path, same: Same) -> None:
    shared.sh(f"tar -C {sources} -cf a.tar .; mkdir out; tar -C out -xf a.tar; tar -C out -df a.tar")
    same(sources, shared.top / "out")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_sqlite_keeps_a_database_whole(shared: MountedDrive, mode: str) -> None:
    needs("sqlite3")
    script = f"""
    sqlite3 data.db 'PRAGMA journal_mode={mode}; CREATE TABLE t(a, b);'
    for i in 1 2 3 4 5; do
      sqlite3 data.db "INSERT INTO t SELECT value, hex(randomblob(50)) FROM generate_series(1, 200);"
    done
    sqlite3 data.db 'PRAGMA integrity_check; SELECT count(*) FROM t;'
    """
    assert shared.sh(script).splitlines()[-2:] == ["ok", "1000"]
    shared.sync()
    shared.stop()
    shared.start()
    assert shared.sh("sqlite3 data.db 'PRAGMA integrity_check; SELECT count(*) FROM t;'") == "ok\n1000\n"


def test_many_files_are_removed_and_stay_removed(shared: MountedDrive) -> None:
    shared.sh("mkdir d; cd d; for i in $(seq 80); do echo $i > f$i; done")
    shared.sync()
    shared.sh("rm -r d; mkdir d; echo new > d/f1")
    shared.sync()
    shared.stop()
    shared.start()
    assert shared.sh("ls d; cat d/f1") == "f1\nnew\n"


@pytest.mark.long
def test_a_program_s_lock_is_one_at_the_service_until_it_is_killed(stopped: MountedDrive) -> None:
    file = stopped.home / "config/cmsfs/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mirror_program_locks = true\n")
    stopped.start()
    (stopped.top / "ledger").write_text("one")
    stopped.sync()

    def holder() -> str:
        return stopped.sh("getfattr --only-values -n user.cms.lock ledger 2> /dev/null || true")

    assert holder() == ""
    python = "exec python3 -c 'import fcntl; fcntl.lockf(9, fcntl.LOCK_EX); input()'"
    for command in ("flock -x 9; read", python):
        script = f"exec 9>> ledger; {command}"
        with subprocess.Popen(["bash", "-c", script], cwd=stopped.top, stdin=subprocess.PIPE) as program:
            until(lambda: holder() != "", 60, "it was not locked")
            program.kill()
        until(lambda: holder() == "", 60, "it is still locked")
