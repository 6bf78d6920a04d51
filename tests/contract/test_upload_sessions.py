"""Files in parts, from our client."""

import hashlib

import pytest

from cmsfs import errors
from cmsfs.client.content import upload_sessions as content_upload_sessions
from cmsfs.client.content.uploads import BytesSource, FileSource
from cmsfs.models.content import upload_sessions as models_upload_sessions
from cmsfs.service.uploads import upload_sessions

PART = 1000
DATA = bytes(range(256)) * 40
SHA1 = hashlib.sha1(DATA).hexdigest()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(upload_sessions, "PART_SIZE", PART)
    monkeypatch.setattr(models_upload_sessions, "MIN_FILE_SIZE", 100)


async def test_a_file_of_the_disk(client, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(DATA)
    session = await client.upload_sessions.begin("0", "large", len(DATA))
    heard: list[int] = []
    parts = await client.upload_sessions.send(session, FileSource(path), progress=heard.append)
    assert heard[-1] == len(DATA)
    file = await client.upload_sessions.commit(session, parts, sha1=SHA1)
    assert (file.name, file.size, file.sha1) == ("large", len(DATA), SHA1)
    async with client.files.content(file.id) as content:
        assert b"".join([piece async for piece in content]) == DATA


async def test_a_new_version_of_the_version_we_know(client, upload):
    old = await upload("a", b"old")
    session = await client.upload_sessions.begin_version(old.id, len(DATA))
    parts = await client.upload_sessions.send(session, BytesSource(DATA))
    with pytest.raises(errors.PreconditionFailed):
        await client.upload_sessions.commit(session, parts, sha1=SHA1, etag="99")
    file = await client.upload_sessions.commit(session, parts, sha1=SHA1, etag=old.etag)
    assert (file.id, file.sha1) == (old.id, SHA1)


async def test_going_on_where_it_stopped(client, way):
    begun = await client.upload_sessions.begin("0", "large", len(DATA))
    first = BytesSource(DATA[: 3 * PART])
    for offset in (0, 2 * PART):
        sha1 = hashlib.sha1(DATA[offset : offset + PART]).hexdigest()
        await client.upload_sessions._send_part(begun, offset, first.part(offset, PART), sha1, len(DATA))
    before = client.counters["upload"]
    session = await client.upload_sessions.get(begun.id)
    assert session.num_parts_processed == 2
    parts = await client.upload_sessions.send(session, BytesSource(DATA))
    # One for the session, one for the list, and the nine parts that were missing.
    assert client.counters["upload"] - before == 2 + session.total_parts - 2
    assert (await client.upload_sessions.commit(session, parts, sha1=SHA1)).sha1 == SHA1


async def test_parts_of_another_content_are_not_taken(client):
    session = await client.upload_sessions.begin("0", "large", len(DATA))
    await client.upload_sessions.send(session, BytesSource(DATA))
    with pytest.raises(errors.IntegrityError):
        await client.upload_sessions.send(session, BytesSource(DATA[::-1]))
    parts = await client.upload_sessions.parts(session)
    with pytest.raises(errors.IntegrityError):
        await client.upload_sessions.commit(session, parts, sha1="0" * 40)
    await client.upload_sessions.abort(session.id)
    with pytest.raises(errors.NotFound):
        await client.upload_sessions.get(session.id)


async def test_a_part_whose_answer_was_lost(client):
    session = await client.upload_sessions.begin("0", "large", len(DATA))
    piece, sha1 = BytesSource(DATA[:PART]), hashlib.sha1(DATA[:PART]).hexdigest()
    first = await client.upload_sessions._send_part(session, 0, piece, sha1, len(DATA))
    assert await client.upload_sessions._send_part(session, 0, piece, sha1, len(DATA)) == first


async def test_a_commit_that_is_not_ready(client, monkeypatch):
    monkeypatch.setattr(upload_sessions, "COMMIT_WAIT_SECONDS", 0)
    monkeypatch.setattr(upload_sessions, "RETRY_AFTER", "0")
    monkeypatch.setattr(content_upload_sessions, "COMMIT_WAIT", 0.01)
    session = await client.upload_sessions.begin("0", "large", 3 * PART)
    parts = await client.upload_sessions.send(session, BytesSource(DATA[: 3 * PART]))
    sha1 = hashlib.sha1(DATA[: 3 * PART]).hexdigest()
    assert (await client.upload_sessions.commit(session, parts, sha1=sha1)).sha1 == sha1


async def test_events_since(client, upload):
    position = await client.events.position()
    file = await upload("a", b"x")
    assert await client.events.wait(position) is True
    page = await client.events.since(position)
    assert [one.event_type for one in page.entries] == ["ITEM_UPLOAD"]
    assert page.entries[0].item().file_version == file.file_version
    assert (await client.events.since(page.next_stream_position)).entries == []
