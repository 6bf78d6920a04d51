"""`FOLDER@TIME` on a real mount: a folder as it was, against a copy that was made then."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs.service.storage import store
from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api

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


def test_a_folder_is_brought_back_to_what_it_was(shared: MountedDrive, tmp_path: Path) -> None:
    sh, then, folder = shared.sh, tmp_path / "then", shared.top / "plans"
    sh("mkdir -p plans/inner/deep; seq 1000 > plans/inner/deep/long")
    sh("echo one | tee plans/one > plans/inner/two")
    shared.sync()
    sh(f"cp -r plans {then}")
    moment = datetime.now().astimezone().isoformat()
    sh("cd plans; echo other > one; rm inner/two; mv inner/deep .; rmdir inner; mv deep/long deep/short")
    sh("echo new > plans/new")
    shared.sync()
    sh(f"cp -r plans {tmp_path}/since")

    said = shared.cmsfs("restore", folder, "--as-of", moment, "--dry-run").stdout
    assert [name for name in ("one", "two", "inner", "long", "new") if name not in said] == []
    assert "plans/inner/two  it comes back out of the trash with its folder" in said
    assert sh(f"diff -r {tmp_path}/since plans") == ""
    shared.cmsfs("restore", folder, "--as-of", moment, "--yes")
    shared.sync()
    assert sh(f"diff -r {then} plans") == ""
    shared.cmsfs("restore", "--undo", "--yes")
    shared.sync()
    assert sh(f"diff -r {tmp_path}/since plans") == ""


def _age(api: Api, by: timedelta) -> None:
    """Let the service have done so much earlier all that it has done."""

    def earlier(text: str | None) -> str | None:
        if text is None:
            return None
        return re.sub(
            r'\d{4}-\d\d-\d\dT[^"]*', lambda at: (datetime.fromisoformat(at[0]) - by).isoformat(), text
        )

    def txn(conn: Connection) -> None:
        for table in ("item", "version", "event"):
            columns = conn.execute(f"SELECT * FROM {table} LIMIT 1").fetchone().keys()
            for column in columns:
                if column.endswith("_at"):
                    conn.execute(
                        f"UPDATE {table} SET {column} = {column} - ?", [by // timedelta(microseconds=1)]
                    )
        for number, source, details in conn.execute("SELECT id, source, details FROM event").fetchall():
            values = (earlier(source), earlier(details), number)
            conn.execute("UPDATE event SET source = ?, details = ? WHERE id = ?", values)

    async def change(folder: Path, database_url: str | None, blobs_url: str | None) -> None:
        async with store.open_store(folder, blobs_url, database_url=database_url) as opened:
            await opened.write(txn)

    assert api.server is not None
    api.server.stop()
    trio.run(change, api.server.data, *getattr(api.server, "place", (None, None)))
    api.server.start()


def test_a_folder_as_it_was_on_other_days(stopped: MountedDrive, api: Api, tmp_path: Path) -> None:
    sh, then = stopped.sh, tmp_path / "then"
    sh("mkdir -p plans/inner; seq 1000 > plans/inner/long; echo one | tee plans/one > plans/inner/two")
    stopped.sync()
    sh(f"cp -r plans {then}")
    _age(api, timedelta(days=3))
    sh("cd plans; echo other > one; rm inner/two; mv inner other; shuf -n 9 other/long > x; mv x other/long")
    sh("echo new > plans/new")
    stopped.sync()
    day = f"{datetime.now().astimezone() - timedelta(days=2):%Y-%m-%d}"
    for time in ("yesterday", "2h", "1d", "30h", "120m", day, f"{day}T14:00"):
        sh(f"diff -r {then} plans@{time}; diff -r {then} @{time}/plans")
        sh(f"cd plans; diff -r {then}/inner @{time}/inner")
        # It is that folder of then, and none of now that has been renamed since.
        assert sh(f"ls plans@{time}") == "inner\none\n"
    assert sh("cat plans@yesterday/one plans/one") == "one\nother\n"
    for time in ("4d", "1w", f"{datetime.now().astimezone() - timedelta(days=5):%Y-%m-%d}"):
        assert sh(f"test -e plans@{time} || echo not there yet") == "not there yet\n"
