"""Parts of uploads and derived files in a bucket: shared by processes, swept, taken over from a folder."""

import time
from contextlib import AsyncExitStack

import pytest
import trio

obstore_stores = pytest.importorskip("obstore.store")

from cmsfs import errors  # noqa: E402
from cmsfs.service.renditions import indexing  # noqa: E402
from cmsfs.service.server import sweeper  # noqa: E402
from cmsfs.service.storage import blob_check, store  # noqa: E402
from cmsfs.service.storage.s3 import claim, s3_blobs, s3_bucket, s3_derived_files, s3_parts  # noqa: E402
from tests.service.conftest import CONTENT, PART, SESSIONS, ServiceClient  # noqa: E402
from tests.support import sample_documents  # noqa: E402

HOUR = 3_600 * 1_000_000
DAY = 24 * HOUR


@pytest.fixture
def bucket():
    return s3_bucket.S3Bucket("s3://contents", objects=obstore_stores.MemoryStore())


def moved_in(opened, bucket, tmp_path):
    """A process that has its bytes in the bucket, and a folder of its own."""
    for name in ("fetched", "incoming", "renditions", "sessions"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    opened.blobs = s3_blobs.S3Blobs(bucket, tmp_path / "incoming", tmp_path / "fetched")
    opened.parts = s3_parts.S3Parts(bucket, tmp_path / "sessions")
    opened.renditions = s3_derived_files.S3DerivedFiles(bucket, tmp_path / "renditions")
    return opened


def keys(bucket, top):
    return [one.key for one in bucket.list(top)]


async def thumbnail(caller, file):
    while True:
        answer = await caller.http.get(f"/files/{file['id']}/thumbnail.png")
        if answer.status_code == 200:
            return answer.content
        assert answer.status_code == 202
        await trio.sleep(0.05)


@pytest.fixture
async def processes(root, fill, bucket, tmp_path, small):
    """Callers at four processes, which have nothing in common but the database and the bucket."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(store.open_store(root)) for _ in range(4)]
        await fill(opened[0])
        callers = []
        for number, one in enumerate(opened):
            user = one.read("SELECT id FROM account WHERE login = 'ann@example.com'")[0]["id"]
            callers.append(ServiceClient(moved_in(one, bucket, tmp_path / str(number)), user))
            await callers[-1].log_in()
        yield callers
        for caller in callers:
            await caller.http.aclose()


async def test_an_upload_begun_at_one_process_goes_on_at_others(processes, bucket, monkeypatch):
    one, two, three, four = processes
    session = await one.begin()
    parts = [(await two.put(session, PART))["part"], (await three.put(session, 0))["part"]]
    parts.append((await two.put(session, 2 * PART))["part"])
    assert len((await one.ask("GET", f"{SESSIONS}/{session['id']}/parts"))["entries"]) == 3
    assert len(keys(bucket, "sessions")) == 3
    # A commit that takes its time is sent again, to whichever process; each has an assembly of its own.
    monkeypatch.setattr("cmsfs.service.uploads.upload_sessions.COMMIT_WAIT_SECONDS", 0)
    await one.commit(session, parts, expect=202)
    await four.commit(session, parts, expect=202)
    await four.commit(session, parts, expect=202)
    made = (await four.commit(session, parts))["entries"][0]
    assert await two.bytes(made["id"]) == CONTENT
    assert keys(bucket, "sessions") == []
    await one.commit(session, parts, expect=404)
    await two.put(session, 0, expect=404)
    assert keys(bucket, "sessions") == []


async def test_parts_with_another_digest_are_no_file(processes, bucket):
    one, two, *_ = processes
    session = await one.begin()
    parts = await two.put_all(session)
    await one.commit(session, parts, whole=b"something else", expect=400)
    # What was damaged in the bucket is not acknowledged either.
    (key, *_) = keys(bucket, "sessions")
    size = bucket.size(key)
    bucket.delete([key])
    bucket.put_new(key, b"\0" * size)
    await two.commit(session, parts, expect=400)
    assert one.store.read("SELECT 1 FROM version") == []


async def test_what_nothing_names_is_swept_after_an_hour(processes, bucket):
    one, two, *_ = processes
    kept, given_up = await one.begin(), await one.begin(name="other")
    part = (await two.put(kept, 0))["part"]
    await two.put(given_up, 0)
    (key,) = [one for one in keys(bucket, "sessions") if kept["id"] in one]
    # A process died before it wrote the row; another before it removed the parts.
    bucket.put_new(f"sessions/{kept['id']}/STRAY", b"x")
    bucket.put_new("sessions/UNKNOWN/PART", b"x")
    await two.store.write(
        lambda conn: conn.execute("DELETE FROM upload_session WHERE id = ?", (given_up["id"],))
    )
    assert await one.store.parts.sweep_abandoned(one.store.query, now=one.store.now()) == 0
    await sweeper.sweep(one.store, one.store.now() + 2 * HOUR)
    assert keys(bucket, "sessions") == [key]
    listed = (await two.ask("GET", f"{SESSIONS}/{kept['id']}/parts"))["entries"]
    assert [entry["part_id"] for entry in listed] == [part["part_id"]]
    await sweeper.sweep(one.store, one.store.now() + 8 * DAY)
    assert keys(bucket, "sessions") == []


async def test_an_upload_that_was_begun_in_a_folder_is_finished_in_a_bucket(
    root, fill, as_user, bucket, tmp_path, small
):
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        session = await api.begin()
        parts = [(await api.put(session, 0))["part"]]
        moved_in(opened, bucket, tmp_path / "own")
        (tmp_path / "own" / "sessions").rmdir()
        (root / "sessions").rename(tmp_path / "own" / "sessions")
        (root / "sessions").mkdir()
        parts += [(await api.put(session, offset))["part"] for offset in (PART, 2 * PART)]
        made = (await api.commit(session, parts))["entries"][0]
        assert await api.bytes(made["id"]) == CONTENT


async def test_what_one_process_derived_all_serve(processes, bucket, nursery, monkeypatch):
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)
    one, two, three, _ = processes
    nursery.start_soon(indexing.run, one.store)
    file = await two.upload("a.pdf", sample_documents.pdf("heron"))
    with trio.fail_after(60):
        while await three.names("heron", content_types="file_content") != {"a.pdf"}:  # noqa: ASYNC110
            await trio.sleep(0.05)
        for caller in (three, two):
            assert (await thumbnail(caller, file)).startswith(b"\x89PNG")
    made = keys(bucket, "renditions")
    assert len(made) == 2
    assert not any(path.is_file() for path in one.store.renditions.root.rglob("*"))
    # They go with the content.
    await two.ask("DELETE", f"/files/{file['id']}", expect=204)
    await two.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    await sweeper.sweep(two.store, two.store.now())
    assert keys(bucket, "renditions") == made
    await sweeper.sweep(three.store, three.store.now() + 2 * HOUR)
    assert keys(bucket, "renditions") == keys(bucket, "blobs") == []


async def test_a_derived_file_that_is_gone_is_made_again(processes, bucket, nursery, monkeypatch):
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)
    one, two, *_ = processes
    nursery.start_soon(indexing.run, one.store)
    file = await two.upload("a.pdf", sample_documents.pdf("heron"))
    with trio.fail_after(60):
        for _ in range(2):
            assert (await thumbnail(two, file)).startswith(b"\x89PNG")
            bucket.delete(keys(bucket, "renditions"))


async def test_a_check_tells_what_uploads_lack_and_what_nothing_names(processes, bucket, monkeypatch):
    one, two, *_ = processes
    whole, broken = await one.begin(), await one.begin(name="other")
    parts = await one.put_all(whole)
    await two.put_all(broken)
    bucket.delete([next(key for key in keys(bucket, "sessions") if broken["id"] in key)])
    bucket.put_new("sessions/UNKNOWN/PART", b"x")
    bucket.put_new(f"renditions/ab/ab{'0' * 38}/extracted_text", b"x")
    report = await blob_check.BlobCheck(two.store, read_all=True, repair=False).run(lambda _: None)
    assert (report.uploads, report.broken_uploads) == (2, [broken["id"]])
    assert (report.stray_parts, report.stray_derived) == (0, 0)  # somebody may be about to name them
    monkeypatch.setattr(blob_check, "RECENT", -DAY)
    for store_of in (two.store, one.store):
        monkeypatch.setattr(store_of, "now", lambda: int(time.time() * 1e6) + 2 * HOUR)
    report = await blob_check.BlobCheck(two.store, read_all=True, repair=True).run(lambda _: None)
    assert (report.stray_parts, report.stray_derived) == (1, 1)
    report = await blob_check.BlobCheck(one.store, read_all=True, repair=False).run(lambda _: None)
    assert (report.uploads, report.broken_uploads) == (1, [])
    assert (report.stray_parts, report.stray_derived) == (0, 0)
    await one.ask("GET", f"{SESSIONS}/{broken['id']}", expect=404)
    await two.commit(whole, parts)


class TestClaim:
    async def test_processes_that_start_at_once_agree(self, root, bucket, monkeypatch):
        monkeypatch.setattr(s3_bucket, "S3Bucket", lambda url: bucket)
        for _ in range(2):
            started: list[store.Store] = []
            opened = trio.Event()

            async def start(started=started, opened=opened):
                async with store.open_store(root, "s3://contents") as one:
                    started.append(one)
                    if len(started) == 3:
                        opened.set()
                    await opened.wait()

            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(start)

    async def test_a_database_whose_contents_are_elsewhere_is_refused(
        self, root, fill, as_user, bucket, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(s3_bucket, "S3Bucket", lambda url: bucket)
        async with store.open_store(root) as opened:
            await fill(opened)
            await (await as_user(opened, "ann@example.com")).upload("a", b"in the folder")
            with pytest.raises(errors.UserError, match="in another folder"):
                await claim.open_bucket(tmp_path / "own", "s3://contents", opened.db, opened.shared)
        assert keys(bucket, None) == []
