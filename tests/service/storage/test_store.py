"""The store: what outlives a restart, what a crash leaves behind, and several processes on one folder."""

import os
import stat
import sys
import time
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from cmsfs import errors
from cmsfs.service.content import files, items
from cmsfs.service.provisioning import demo, samples
from cmsfs.service.server import app
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind


@asynccontextmanager
async def log_in(opened, credentials, subject=("user", "user_id")):
    form = {
        "grant_type": "client_credentials",
        "client_id": credentials.client_id,
        "client_secret": credentials.client_secret,
        "box_subject_type": subject[0],
        "box_subject_id": getattr(credentials, subject[1]),
    }
    transport = httpx.ASGITransport(app.build(opened))
    async with httpx.AsyncClient(transport=transport, base_url="http://x/2.0") as client:
        token = (await client.post("http://x/oauth2/token", data=form)).json()["access_token"]
        client.headers["authorization"] = f"Bearer {token}"
        yield client


def _place(root, sha1):
    return root / "blobs" / sha1[:2] / sha1


async def test_the_sample_welcomes(root):
    async with store.open_store(root) as opened:
        credentials = await demo.ensure_sample(opened)
        async with log_in(opened, credentials) as client:
            found = (await client.get("/folders/0/items?limit=1000")).json()
            names = [one["name"] for one in found["entries"]]
            assert "Welcome.md" in names
            assert "Getting started" in names
            trash = (await client.get("/folders/trash/items")).json()
            assert [one["name"] for one in trash["entries"]] == ["First idea.md"]
            found = (await client.get("/search?query=tide&type=web_link")).json()
            assert [one["name"] for one in found["entries"]] == ["Tide table"]
        async with log_in(opened, credentials, ("enterprise", "enterprise_id")) as client:
            assert (await client.get("/users/me")).json()["name"] == "cmsfs application"
    assert stat.S_IMODE((root / "credentials.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_sample_texts_are_finished():
    names = [one.path for one in samples.TREE]
    assert len(names) == len(set(names))
    assert set(names) >= samples.TRASHED
    assert all(one.text for one in samples.TREE if one.kind is not ItemKind.FOLDER)


async def test_the_sample_is_made_once(root):
    async with store.open_store(root) as opened:
        first = await demo.ensure_sample(opened)
        assert await demo.ensure_sample(opened) == first
        count = opened.read("SELECT count(*) AS n FROM item")[0]["n"]
    async with store.open_store(root) as opened:
        assert await demo.ensure_sample(opened) == first
        assert opened.read("SELECT count(*) AS n FROM item")[0]["n"] == count


async def test_lost_credentials_are_recreated(root):
    async with store.open_store(root) as opened:
        first = await demo.ensure_sample(opened)
        (root / "credentials.json").unlink()
        second = await demo.ensure_sample(opened)
        assert (second.user_id, second.client_id) == (first.user_id, first.client_id)
        assert second.client_secret != first.client_secret
        async with log_in(opened, second) as client:
            assert (await client.get("/users/me")).status_code == 200
        (root / "credentials.json").write_text("{}")
        with pytest.raises(errors.UserError, match="remove it"):
            await demo.ensure_sample(opened)


async def test_an_enterprise_of_ones_own_gets_no_sample(service, root, api):
    with pytest.raises(errors.UserError, match="of its own"):
        await demo.ensure_sample(service)
    assert not (root / "credentials.json").exists()
    assert demo.has_own_enterprise(service)
    await api.log_in()  # with the application's secret, which is the same
    assert len(service.read("SELECT id FROM enterprise")) == 1


async def test_everything_is_there_after_a_restart(root):
    async with store.open_store(root) as opened:
        credentials = await demo.ensure_sample(opened)
        async with log_in(opened, credentials) as client:
            before = (await client.get("/search?query=NOT x&limit=200")).json()
            token = client.headers["authorization"]
            file = next(one for one in before["entries"] if one["name"] == "Welcome.md")
    async with store.open_store(root) as opened:
        transport = httpx.ASGITransport(app.build(opened))
        headers = {"authorization": token}
        async with httpx.AsyncClient(transport=transport, base_url="http://x/2.0", headers=headers) as client:
            assert (await client.get("/search?query=NOT x&limit=200")).json() == before
            assert (
                await client.get(f"/files/{file['id']}/content", follow_redirects=True)
            ).text == samples.TREE[0].text


async def test_what_a_crash_left_is_swept_out(root):
    async with store.open_store(root) as opened:
        await demo.ensure_sample(opened)
        kept = {path.name for path in (root / "blobs").rglob("*") if path.is_file()}
        # Killed before the row: the blob is there, and so is something half arrived.
        opened.blobs.keep_bytes(b"nobody has this")
        (root / "incoming" / "1-abc").write_bytes(b"half")
    async with store.open_store(root) as opened:
        assert {path.name for path in (root / "blobs").rglob("*") if path.is_file()} == kept
        assert list((root / "incoming").iterdir()) == []


async def test_purged_bytes_are_freed_at_start(root):
    async with store.open_store(root) as opened:
        credentials = await demo.ensure_sample(opened)
        async with log_in(opened, credentials) as client:
            file = (await client.get("/folders/trash/items?fields=sha1")).json()["entries"][0]
            assert (await client.delete(f"/files/{file['id']}/trash")).status_code == 204
            assert _place(root, file["sha1"]).exists()
    async with store.open_store(root) as opened:
        assert not _place(root, file["sha1"]).exists()


async def test_second_process_is_harmless(root, on_postgres):
    async with store.open_store(root) as opened:
        await demo.ensure_sample(opened)
        stale = root / "incoming" / "1-stale"
        stale.touch()
        old = time.time() - 2 * 3600
        os.utime(stale, (old, old))
        async with opened.blobs.receive() as incoming:
            await incoming.write(b"still arriving" * 100_000)
            orphan = opened.blobs.keep_bytes(b"its row is about to be written")
            code = (
                "import sys, trio, pathlib\n"
                "from cmsfs.service.provisioning import demo\n"
                "from cmsfs.service.storage import store\n"
                "async def main():\n"
                "    url = (sys.argv[2:] or [None])[0]\n"
                "    async with store.open_store(pathlib.Path(sys.argv[1]), database_url=url) as opened:\n"
                "        print((await demo.ensure_sample(opened)).user_id)\n"
                "        assert 'obstore' not in sys.modules\n"  # which contents in a folder do without
                "trio.run(main)\n"
            )
            done = await trio.run_process(
                [sys.executable, "-c", code, str(root), *on_postgres.values()],
                capture_stdout=True,
            )
            assert done.stdout.strip().isdigit()
            assert _place(root, orphan).exists()
            assert not stale.exists()
            sha1 = await incoming.keep()
        assert _place(root, sha1).stat().st_size == 1_400_000


async def test_equal_contents_are_one_blob(root):
    async with store.open_store(root) as opened:
        credentials = await demo.ensure_sample(opened)
        sha1 = opened.blobs.keep_bytes(b"twice")

        def txn(conn):
            row = conn.execute("SELECT root FROM account WHERE id = ?", (credentials.user_id,)).fetchone()
            for name in ("one", "two"):
                made = items.insert(
                    *(conn, items.find(conn, row["root"]), items.New(ItemKind.FILE, name, 5, sha1)),
                    by=int(credentials.user_id),
                    now=opened.now(),
                )
                files.add_version(conn, made, by=int(credentials.user_id), now=opened.now())

        await opened.write(txn)
        assert opened.blobs.keep_bytes(b"twice") == sha1
        assert sum(path.name == sha1 for path in (root / "blobs").rglob("*")) == 1


async def test_the_clock_never_stands_still(service):
    moments = [service.now() for _ in range(1000)]
    assert moments == sorted(set(moments))


async def test_a_folder_that_cannot_be_used(root):
    root.parent.mkdir(exist_ok=True)
    root.write_text("a file")
    with pytest.raises(errors.UserError, match="cannot hold the service's data"):
        async with store.open_store(root):
            pass
