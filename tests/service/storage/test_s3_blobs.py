"""Contents in a bucket: how they come and go, and who may name them meanwhile."""

import io
import zipfile

import pytest
import trio

from cmsfs.runtime import threads
from cmsfs.service.server import sweeper
from cmsfs.service.storage import blob_check, blobs

obstore_stores = pytest.importorskip("obstore.store")
from cmsfs import errors  # noqa: E402
from cmsfs.service.storage.s3 import s3_blobs, s3_bucket, s3_reader  # noqa: E402

HOUR = 3_600 * 1_000_000
DAY = 24 * HOUR


@pytest.fixture
async def bucket(service, tmp_path):
    """The bucket that the service has its contents in; it is in this process's memory."""
    made = s3_bucket.S3Bucket("s3://contents", objects=obstore_stores.MemoryStore())
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    service.blobs = s3_blobs.S3Blobs(made, service.blobs.incoming, fetched)
    return made


def _keys(bucket):
    return [one.key.rpartition("/")[2] for one in bucket.list("blobs")]


async def _forget(api, item):
    """Delete a file for good."""
    await api.ask("DELETE", f"/files/{item['id']}", expect=204)
    await api.ask("DELETE", f"/files/{item['id']}/trash", expect=204)


async def test_content_goes_to_the_bucket_and_comes_back(api, service, bucket, monkeypatch):
    monkeypatch.setattr(s3_reader, "WINDOW", 1000)
    content = bytes(range(256)) * 20
    file = await api.upload("numbers", content)
    empty = await api.upload("nothing", b"")
    assert set(_keys(bucket)) == {file["sha1"], empty["sha1"]}
    assert list(service.blobs.incoming.iterdir()) == []
    for first, last in ((0, 5119), (999, 1000), (1000, 3999), (5119, 5119)):
        headers = {"range": f"bytes={first}-{last}"}
        answer = await api.http.get(f"/files/{file['id']}/content", headers=headers)
        assert answer.content == content[first : last + 1]
    assert (await api.http.get(f"/files/{empty['id']}/content")).content == b""
    items = [{"type": "file", "id": one["id"]} for one in (file, empty)]
    made = await api.ask("POST", "/zip_downloads", json={"items": items}, expect=202)
    archive = zipfile.ZipFile(io.BytesIO((await api.http.get(made["download_url"])).content))
    assert {name: archive.read(name) for name in archive.namelist()} == {"numbers": content, "nothing": b""}
    second = await api.version(file["id"], b"other words")
    assert second["sha1"] in _keys(bucket)


async def test_a_content_is_a_file_while_the_worker_reads_it(api, service, bucket):
    file = await api.upload("words", b"a heron")
    async with service.blobs.local_copy(file["sha1"]) as path:
        assert path.read_bytes() == b"a heron"
        assert path.parent == service.blobs.local_folder
    assert not path.exists()
    bucket.delete([service.blobs.key(file["sha1"])])
    with pytest.raises(FileNotFoundError):
        async with service.blobs.local_copy(file["sha1"]):
            pass
    assert list(service.blobs.local_folder.iterdir()) == []


async def test_a_lost_content_is_told_as_such(api, service, bucket, expect_log):
    file = await api.upload("words", b"a heron")
    bucket.delete([service.blobs.key(file["sha1"])])
    expect_log(f"content {file['sha1']} is missing")
    answer = await api.http.get(f"/files/{file['id']}/content")
    assert (answer.status_code, answer.json()["code"]) == (500, "content_lost")


async def test_a_content_goes_an_hour_after_its_last_version(api, service, bucket):
    one = await api.upload("one", b"the same")
    two = await api.upload("two", b"the same")
    other = await api.upload("other", b"another")
    await _forget(api, two)
    await sweeper.sweep(service, service.now() + 2 * HOUR)
    assert service.read("SELECT * FROM aside") == []
    await _forget(api, one)
    now = service.now()
    await sweeper.sweep(service, now)
    assert set(_keys(bucket)) == {one["sha1"], other["sha1"]}
    await _forget(api, other)
    await sweeper.sweep(service, now + HOUR + 1)
    assert _keys(bucket) == [other["sha1"]]
    # The row goes with the next one's, when no upload can be about to name it.
    for later, left in ((7 * DAY, {one["sha1"], other["sha1"]}), (9 * DAY, {other["sha1"]})):
        await sweeper.sweep(service, now + later)
        assert {row["sha1"] for row in service.read("SELECT sha1 FROM aside")} == left


async def test_an_upload_of_what_was_set_aside_has_it_brought_back(api, service, bucket):
    old = await api.upload("old", b"precious")
    await _forget(api, old)
    await sweeper.sweep(service, service.now())
    new = await api.upload("new", b"precious")
    await sweeper.sweep(service, service.now() + 2 * HOUR)
    # Nor does it go if it should have been set aside since.
    await service.write(lambda conn: service.blobs.set_aside(conn, new["sha1"], now=service.now()))
    await sweeper.sweep(service, service.now() + 2 * HOUR)
    assert (await api.http.get(f"/files/{new['id']}/content")).content == b"precious"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_upload_of_what_is_being_removed_is_sent_away(
    api, service, bucket, monkeypatch, expect_log, moment
):
    """The bytes are put, and then removed, before the row that names them."""
    expect_log("the contents are out of reach: a content of these bytes is just being removed")
    old = await api.upload("old", b"precious")
    await _forget(api, old)
    await sweeper.sweep(service, service.now())
    removing, go_on = trio.Event(), trio.Event()
    delete = bucket.delete

    def held(keys):
        if moment == "after":
            delete(keys)
        trio.from_thread.run_sync(removing.set)
        trio.from_thread.run(go_on.wait)
        if moment == "before":
            delete(keys)

    monkeypatch.setattr(bucket, "delete", held)
    body, headers = api.form({"name": "new", "parent": {"id": "0"}}, b"precious")
    options = {"content": body, "headers": headers}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweeper.sweep, service, service.now() + 2 * HOUR)
        await removing.wait()
        answer = await api.http.post("http://service.test/api/2.0/files/content", **options)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        go_on.set()
    # The client asks again.
    answer = await api.http.post("http://service.test/api/2.0/files/content", **options)
    assert answer.status_code == 201
    await sweeper.sweep(service, service.now() + 4 * HOUR)
    new = answer.json()["entries"][0]
    assert (await api.http.get(f"/files/{new['id']}/content")).content == b"precious"


async def test_bytes_that_were_removed_since_they_came_are_not_named(api, service, bucket):
    old = await api.upload("old", b"precious")
    await _forget(api, old)
    await sweeper.sweep(service, service.now())
    await sweeper.sweep(service, service.now() + 2 * HOUR)
    with pytest.raises(blobs.BlobsUnavailable):
        await service.write(lambda conn: service.blobs.bring_back(conn, old["sha1"]))


async def test_a_bucket_out_of_reach_is_no_lost_upload(api, service, bucket, monkeypatch, expect_log):
    """Nobody listens at port 1."""
    expect_log("the contents are out of reach: s3://contents")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setitem(s3_bucket.RETRY_CONFIG, "max_retries", 0)
    service.blobs.bucket = s3_bucket.S3Bucket("s3://contents")
    body, headers = api.form({"name": "new", "parent": {"id": "0"}}, b"precious")
    answer = await api.http.post("http://service.test/api/2.0/files/content", content=body, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert list(service.blobs.incoming.iterdir()) == []
    service.blobs.bucket = bucket
    await api.upload("new", b"precious")


async def test_a_check_compares_rows_and_bucket(api, service, bucket, monkeypatch):
    monkeypatch.setattr(blob_check, "RECENT", -DAY)
    kept, lost, short, wrong, old = [await api.upload(name, name.encode()) for name in "abcde"]
    alone = await threads.run_sync(service.blobs.keep_bytes, b"nobody names this")
    await _forget(api, old)
    await sweeper.sweep(service, service.now())
    bucket.delete([service.blobs.key(lost["sha1"])])
    for one, data in ((short, b""), (wrong, b"x")):
        bucket.delete([service.blobs.key(one["sha1"])])
        bucket.put_new(service.blobs.key(one["sha1"]), data)
    report = await blob_check.BlobCheck(service, read_all=True, repair=True).run(lambda _: None)
    assert (report.contents, report.orphans, report.set_aside) == (4, [alone], 1)
    assert [one.sha1 for one in report.missing] == [lost["sha1"]]
    assert {one.sha1 for one in report.damaged} == {short["sha1"], wrong["sha1"]}
    await sweeper.sweep(service, service.now() + 2 * HOUR)
    assert set(_keys(bucket)) == {one["sha1"] for one in (kept, short, wrong)}


@pytest.mark.parametrize(
    "url",
    ["s3://", "s3://b", "s3://UPPER/x", "s3://bucket/a?b", "s3://key:secret@bucket", "https://bucket/x"],
)
def test_what_names_no_bucket_is_refused(url):
    with pytest.raises(errors.UserError, match="is like s3://bucket/prefix") as refused:
        s3_bucket.S3Bucket(url)
    assert "secret" not in str(refused.value)


def test_keys_come_from_a_file(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "keys"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    with pytest.raises(errors.UserError, match="is not there"):
        s3_bucket.S3Bucket("s3://bucket")
    file.write_text("[default]\naws_access_key_id = A\naws_secret_access_key = B%\n[other]\nsecret\n")
    with pytest.raises(errors.UserError, match="has no keys of a profile 'default'"):
        s3_bucket.S3Bucket("s3://bucket")
    file.write_text("[default]\naws_access_key_id = A\naws_secret_access_key = B%\n")
    assert s3_bucket.settings()["secret_access_key"] == "B%"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://files.example.com")
    with pytest.raises(errors.UserError, match="plain text"):
        s3_bucket.S3Bucket("s3://bucket")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    s3_bucket.S3Bucket("s3://bucket")
