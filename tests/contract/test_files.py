"""/files/:id: facts, content, changes."""

import hashlib
from datetime import UTC, datetime

import pytest
import trio

from cmsfs import errors
from cmsfs.client.content.uploads import PIECE, BytesSource

DATA = bytes(range(256)) * 12_000


async def read(client, file_id, **wanted):
    async with client.files.content(file_id, **wanted) as pieces:
        return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (0, len(DATA) - 1), (PIECE - 1, PIECE + 1), (len(DATA) - 5, len(DATA) - 1)]
)
async def test_a_range_is_exactly_that(client, upload, first, last):
    file = await upload("data", DATA)
    assert await read(client, file.id, first=first, last=last) == DATA[first : last + 1]


async def test_the_whole_file_and_an_empty_one(client, upload):
    assert await read(client, (await upload("data", DATA)).id) == DATA
    assert await read(client, (await upload("empty", b"")).id) == b""


async def test_range_beyond_the_end(client, upload):
    file = await upload("data", b"0123456789")
    with pytest.raises(errors.RemoteError):
        await read(client, file.id, first=10, last=19)
    with pytest.raises(errors.ProtocolError):
        await read(client, file.id, first=5, last=19)


async def test_an_earlier_version_can_still_be_read(client, upload):
    first = await upload("a.txt", b"one")
    second = await client.uploads.new_version(
        first.id, BytesSource(b"two!"), sha1=hashlib.sha1(b"two!").hexdigest()
    )
    assert await read(client, first.id, first=0, last=2, version=first.file_version.id) == b"one"
    assert await read(client, first.id, first=0, last=3, version=second.file_version.id) == b"two!"
    assert await read(client, first.id) == b"two!"


async def test_stopping_early_leaves_nothing_open(client, upload):
    file = await upload("data", DATA)
    for _ in range(3):
        async with client.files.content(file.id) as pieces:
            assert await anext(pieces)
    async with client.files.content(file.id):
        pass
    # The connection, or what stands for it, still serves.
    assert (await client.items.get("file", file.id)).size == len(DATA)


async def test_a_cancelled_download_leaves_nothing_open(client, upload):
    file = await upload("data", DATA)
    with trio.CancelScope() as scope:
        async with client.files.content(file.id) as pieces:
            async for _ in pieces:
                scope.cancel()
    assert scope.cancelled_caught
    assert await read(client, file.id, first=0, last=3) == DATA[:4]


async def test_many_ranges_at_once(client, upload):
    file = await upload("data", DATA)
    found = {}

    async def one(start):
        found[start] = await read(client, file.id, first=start, last=start + 99_999)

    async with trio.open_nursery() as nursery:
        for start in range(0, 2_000_000, 100_000):
            nursery.start_soon(one, start)
    assert b"".join(found[start] for start in sorted(found)) == DATA[:2_000_000]


async def test_a_rename_a_move_and_a_time(client, upload):
    when = datetime(2020, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
    folder = await client.folders.create("there", "0")
    file = await upload("a.txt")
    renamed = await client.items.update("file", file.id, name="b.txt", etag=file.etag)
    assert (renamed.id, renamed.name, renamed.sha1) == (file.id, "b.txt", file.sha1)
    moved = await client.items.update("file", file.id, parent_id=folder.id, name="c.txt")
    assert (moved.parent.id, moved.name) == (folder.id, "c.txt")
    touched = await client.items.update("file", file.id, content_modified_at=when)
    assert touched.content_modified_at == when
    assert len({file.etag, renamed.etag, moved.etag, touched.etag}) == 4
    with pytest.raises(errors.PreconditionFailed):
        await client.items.update("file", file.id, name="d.txt", etag=file.etag)


async def test_a_name_that_is_taken_is_refused(client, upload):
    await upload("a.txt")
    file = await upload("b.txt")
    with pytest.raises(errors.Conflict):
        await client.items.update("file", file.id, name="a.txt")


async def test_a_copy_is_another_file(client, upload):
    file = await upload("a.txt", b"text")
    copied = await client.files.copy(file.id, parent_id="0", name="b.txt")
    assert copied.id != file.id
    assert (copied.name, copied.sha1) == ("b.txt", file.sha1)
    with pytest.raises(errors.Conflict):
        await client.files.copy(file.id, parent_id="0")


async def test_a_deleted_file_is_in_the_trash(client, upload):
    file = await upload("a.txt")
    with pytest.raises(errors.PreconditionFailed):
        await client.items.delete("file", file.id, etag="999")
    await client.items.delete("file", file.id, etag=file.etag)
    for ask in (
        client.items.get("file", file.id),
        client.items.update("file", file.id, name="b"),
        read(client, file.id),
    ):
        with pytest.raises(errors.NotFound) as caught:
            await ask
        assert caught.value.code == "trashed"


async def test_missing_file_is_not_found(client):
    with pytest.raises(errors.NotFound) as caught:
        await client.items.get("file", "987654321")
    assert caught.value.code == "not_found"
    with pytest.raises(errors.NotFound):
        await read(client, "987654321")
