"""Programs that keep files with the public API: rclone, and by it restic and duplicity.

rclone speaks to hosts of its own only, so the service has a certificate for their names, and the programs go
by a proxy that leads every name to it.  A test is skipped where its program is not installed.
"""

import json
import os
import shutil
from urllib.parse import urlsplit

import pytest
import trio

from cmsfs.service.oauth import access_tokens
from cmsfs.service.server import serve
from tests.bench import rival
from tests.support import certificates, clients_table

pytestmark = pytest.mark.long


@pytest.fixture
async def at_service(sample, nursery, tmp_path):
    """`await at_service(WORDS)`: what a program prints that finds the service as `rival:`."""
    opened, credentials = sample
    certfile, keyfile = certificates.self_signed(tmp_path, *rival.HOSTS)

    async def run(task_status):
        await serve.serve(opened, port=0, certfile=certfile, keyfile=keyfile, task_status=task_status)

    url = await nursery.start(lambda task_status: run(task_status))
    token = await opened.write(
        lambda conn: access_tokens.access_token(
            conn, credentials.client_id, int(credentials.user_id), now=opened.now()
        )
    )
    login = {"access_token": token["access_token"], "token_type": "bearer", "expiry": "2099-01-01T00:00:00Z"}
    with rival.proxy(urlsplit(url).port) as address:
        environment = os.environ | {
            "HOME": str(tmp_path),
            "HTTPS_PROXY": address,
            "NO_PROXY": "",
            "SSL_CERT_FILE": str(certfile),
            "RCLONE_CONFIG": str(tmp_path / "rclone.conf"),
            "RCLONE_CONFIG_RIVAL_TYPE": "box",
            "RCLONE_CONFIG_RIVAL_TOKEN": json.dumps(login),
            "RESTIC_PASSWORD": "of the tests",
            "PASSPHRASE": "of the tests",
        }

        async def ask(*words):
            if shutil.which(words[0]) is None or shutil.which("rclone") is None:
                pytest.skip(f"{words[0]} is not installed")
            with trio.fail_after(100):
                done = await trio.run_process(
                    words, env=environment, capture_stdout=True, capture_stderr=True, check=False
                )
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode()

        yield ask


@pytest.fixture
def tree(tmp_path):
    """Some files, and where they may come back."""
    made = tmp_path / "tree"
    (made / "inner").mkdir(parents=True)
    (made / "a.txt").write_text("one", encoding="utf-8")
    (made / "inner" / "Größe: 3.bin").write_bytes(bytes(range(256)) * 500)
    return made


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_rclone(at_service, tree, tmp_path, exchanges):
    await at_service("rclone", "copy", str(tree), "rival:copied")
    await at_service("rclone", "check", str(tree), "rival:copied", "--download")
    listed = json.loads(await at_service("rclone", "lsjson", "-R", "rival:copied"))
    assert {one["Path"] for one in listed} == {"a.txt", "inner", "inner/Größe: 3.bin"}
    (tree / "a.txt").write_text("another", encoding="utf-8")
    await at_service("rclone", "sync", str(tree), "rival:copied")
    await at_service("rclone", "moveto", "rival:copied/a.txt", "rival:copied/inner/b.txt")
    await at_service("rclone", "copy", "rival:copied", str(tmp_path / "back"))
    assert (tmp_path / "back" / "inner" / "b.txt").read_text(encoding="utf-8") == "another"
    assert json.loads(await at_service("rclone", "about", "rival:", "--json"))["used"] > 0
    assert (await at_service("rclone", "link", "rival:copied/inner/b.txt")).startswith("https://")
    await at_service("rclone", "purge", "rival:copied")
    assert "copied" not in await at_service("rclone", "lsf", "rival:")
    clients_table.hold("rclone", exchanges)


async def test_restic(at_service, tree, tmp_path, exchanges):
    repository = ("restic", "-r", "rclone:rival:backups")
    await at_service(*repository, "init")
    await at_service(*repository, "backup", str(tree))
    (tree / "a.txt").write_text("another", encoding="utf-8")
    await at_service(*repository, "backup", str(tree))
    assert len(json.loads(await at_service(*repository, "snapshots", "--json"))) == 2
    await at_service(*repository, "forget", "--keep-last", "1", "--prune")
    await at_service(*repository, "check", "--read-data")
    await at_service(*repository, "restore", "latest", "--target", str(tmp_path / "back"))
    assert contents(tmp_path / "back" / tree.relative_to("/")) == contents(tree)
    clients_table.hold("restic", exchanges)


async def test_duplicity(at_service, tree, tmp_path, exchanges):
    place = "rclone://rival:duplicity"
    await at_service("duplicity", "full", "--no-encryption", str(tree), place)
    (tree / "a.txt").write_text("another", encoding="utf-8")
    await at_service("duplicity", "incremental", "--no-encryption", str(tree), place)
    assert "Incremental" in await at_service("duplicity", "collection-status", "--no-encryption", place)
    await at_service("duplicity", "restore", "--no-encryption", place, str(tmp_path / "back"))
    assert contents(tmp_path / "back") == contents(tree)
    # Later versions of rclone look at the file again.
    clients_table.hold("duplicity", exchanges, newer=frozenset({"files"}))
