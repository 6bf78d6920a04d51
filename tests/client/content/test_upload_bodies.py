"""The body of an upload."""

import io
from collections.abc import AsyncIterator

import multipart as parsing
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from cmsfs.client.content import upload_sessions
from cmsfs.client.content.uploads import (
    PIECE,
    SMALL,
    BytesSource,
    FileSource,
    MultipartBody,
    SourceChanged,
)


async def whole(upload):
    data = b"".join([piece async for piece in upload])
    await upload.aclose()
    return data


async def read(source):
    return b"".join([piece async for piece in source.open()])


class Lying:
    """A source that says another size than it has."""

    def __init__(self, size, *pieces):
        self.size = size
        self.closed = False
        self._pieces = pieces

    async def open(self):
        try:
            for piece in self._pieces:
                yield piece
        finally:
            self.closed = True


async def test_attributes_come_first_with_known_length():
    upload = MultipartBody({"name": 'a "b"\r\n.txt', "parent": {"id": "0"}}, BytesSource(b"\r\n--content"))
    data = await whole(upload)
    assert upload.headers["content-length"] == str(len(data))
    boundary = upload.headers["content-type"].partition("boundary=")[2]
    attributes, file = parsing.MultipartParser(io.BytesIO(data), boundary).parts()
    assert (attributes.name, file.name) == ("attributes", "file")
    assert attributes.value == '{"name": "a \\"b\\"\\r\\n.txt", "parent": {"id": "0"}}'
    assert file.raw == b"\r\n--content"


async def test_it_can_be_sent_again_from_its_beginning():
    upload = MultipartBody({"name": "a"}, BytesSource(bytes(3 * PIECE)))
    broken_off = aiter(upload)
    for _ in range(3):
        await anext(broken_off)
    data = await whole(upload)
    assert len(data) == int(upload.headers["content-length"])


async def test_progress_counts_the_bytes_of_the_file():
    heard: list[int] = []
    await whole(MultipartBody({}, BytesSource(bytes(2 * PIECE + 5)), progress=heard.append))
    assert heard == [PIECE, 2 * PIECE, 2 * PIECE + 5]


@pytest.mark.parametrize("pieces", [[b"123"], [b"12345", b"6"], []])
async def test_another_size_than_announced_ends_the_body_unfinished(pieces):
    source = Lying(5, *pieces)
    upload = MultipartBody({}, source)
    taken = []
    with pytest.raises(SourceChanged):
        async for piece in upload:
            taken.append(piece)
    assert not b"".join(taken).endswith(b"--\r\n")
    await upload.aclose()
    assert source.closed


async def test_closing_closes_the_source():
    third = bytes(SMALL)
    source = Lying(3 * SMALL, third, third, third)
    upload = MultipartBody({}, source)
    parts = aiter(upload)
    await anext(parts)
    await anext(parts)
    assert not source.closed
    await upload.aclose()
    assert source.closed


@pytest.mark.parametrize("size", [0, 1, SMALL])
async def test_a_small_body_is_one_piece(size, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * size)
    told: list[int] = []
    upload = MultipartBody({}, FileSource(path), progress=told.append)
    [piece] = [piece async for piece in upload]
    assert len(piece) == int(upload.headers["content-length"])
    assert piece.count(b"x" * size + b"\r\n--") > 0
    assert sum(told[-1:]) == size
    # Again from its beginning, as after a token turned out stale.
    assert [again async for again in upload] == [piece]
    await upload.aclose()


async def test_a_file_is_read_in_pieces(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)) * 10_000)
    source = FileSource(path)
    assert source.size == 2_560_000
    pieces = [piece async for piece in source.open()]
    assert [len(piece) for piece in pieces] == [PIECE, PIECE, 2_560_000 - 2 * PIECE]
    assert b"".join(pieces) == path.read_bytes()
    assert await read(source) == path.read_bytes()


@given(data=st.binary(max_size=50), offset=st.integers(0, 60), size=st.integers(0, 60))
async def test_a_part_of_a_file(tmp_path_factory, data, offset, size):
    path = tmp_path_factory.mktemp("part") / "f"
    path.write_bytes(data)
    assert await read(FileSource(path, offset)) == data[offset:]
    part = FileSource(path, offset, size)
    if offset + size <= len(data) or size == 0:
        assert await read(part) == data[offset : offset + size]
    else:
        with pytest.raises(SourceChanged):
            await read(part)


@pytest.mark.parametrize("change", [b"", b"shorter", b"longer than it was before"])
async def test_a_file_that_changes_its_size_is_noticed(tmp_path, change):
    path = tmp_path / "f"
    path.write_bytes(b"as it was when")
    source = FileSource(path)
    path.write_bytes(change)
    with pytest.raises(SourceChanged):
        await read(source)


async def test_growing_file_is_detected(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(2 * PIECE))
    upload = MultipartBody({}, FileSource(path))
    parts = aiter(upload)
    await anext(parts)
    await anext(parts)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(SourceChanged):
        async for _ in parts:
            pass
    await upload.aclose()


def test_missing_file_is_an_oserror(tmp_path):
    with pytest.raises(FileNotFoundError):
        FileSource(tmp_path / "none")


class _Waiting:
    """A source whose reads last until `go` is set."""

    size = 2

    def __init__(self) -> None:
        self.go = trio.Event()
        self.is_closed = False

    async def open(self) -> AsyncIterator[bytes]:
        try:
            await self.go.wait()
            yield b"x"
            yield b"y"
        finally:
            self.is_closed = True


async def test_part_whose_request_ends_during_a_read_is_closed_after_it() -> None:
    source = _Waiting()
    body = upload_sessions.PartSource(source)
    reader = aiter(body)
    pieces: list[bytes] = []

    async def read() -> None:
        pieces.append(await anext(reader))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await body.aclose()
        assert not source.is_closed
        source.go.set()
    assert (pieces, source.is_closed) == ([b"x"], True)
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    # It can be sent again.
    assert b"".join([piece async for piece in body]) == b"xy"
