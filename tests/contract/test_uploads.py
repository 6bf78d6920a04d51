"""POST /files/content and POST /files/:id/content."""

import hashlib
from datetime import UTC, datetime

import httpx
import pytest

from cmsfs import errors
from cmsfs.client.content.uploads import PIECE, BytesSource, FileSource, SourceChanged
from cmsfs.models.base import Reference
from cmsfs.models.content import uploads

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def sha1(data):
    return hashlib.sha1(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1, PIECE, 3 * PIECE + 7])
async def test_uploaded_file_is_complete(client, upload, size):
    data = bytes(range(256)) * (size // 256 + 1)
    made = await upload("new.bin", data[:size], content_created_at=WHEN, content_modified_at=WHEN)
    assert (made.name, made.size, made.sha1) == ("new.bin", size, sha1(data[:size]))
    assert made.content_modified_at == WHEN
    assert (made.parent.id, made.item_status) == ("0", "active")
    assert made.file_version.id
    again = await client.items.get("file", made.id)
    # Who has changed a file is asked of one file by itself.
    usual, whole = (item.model_dump(exclude_unset=True, exclude={"modified_by"}) for item in (again, made))
    assert usual == {name: whole[name] for name in usual}


async def test_a_file_of_the_disk_is_streamed(client, tmp_path):
    data = bytes(range(251)) * 80_000
    path = tmp_path / "large"
    path.write_bytes(data)
    wish = uploads.UploadAttributes(name="large", parent=Reference(id="0"))
    heard: list[int] = []
    made = await client.uploads.new_file(wish, FileSource(path), sha1=sha1(data), progress=heard.append)
    assert heard[-1] == made.size == len(data)
    async with client.files.content(made.id) as pieces:
        assert sha1(b"".join([piece async for piece in pieces])) == made.sha1


async def test_a_new_version_keeps_the_file(client, upload):
    first = await upload("a.txt", b"one")
    second = await client.uploads.new_version(
        first.id, BytesSource(b"two"), sha1=sha1(b"two"), etag=first.etag, content_modified_at=WHEN
    )
    assert (second.id, second.name, second.sha1) == (first.id, "a.txt", sha1(b"two"))
    assert second.content_modified_at == WHEN
    assert second.etag != first.etag
    assert second.file_version.id != first.file_version.id
    renamed = await client.uploads.new_version(
        first.id, BytesSource(b"three"), sha1=sha1(b"three"), name="b.txt"
    )
    assert (renamed.id, renamed.name) == (first.id, "b.txt")


async def test_stale_if_match_is_refused(client, upload):
    first = await upload("a.txt", b"one")
    await client.uploads.new_version(first.id, BytesSource(b"two"), sha1=sha1(b"two"))
    with pytest.raises(errors.PreconditionFailed):
        await client.uploads.new_version(
            first.id, BytesSource(b"three"), sha1=sha1(b"three"), etag=first.etag
        )
    assert (await client.items.get("file", first.id)).sha1 == sha1(b"two")


@pytest.mark.parametrize("name", ["a.txt", "A.TXT"])
async def test_taken_name_names_the_holder(client, upload, name):
    holder = await upload("a.txt", b"one")
    with pytest.raises(errors.Conflict) as caught:
        await upload(name, bytes(3 * PIECE))
    assert caught.value.code == "item_name_in_use"
    assert caught.value.conflict["id"] == holder.id
    assert caught.value.conflict["sha1"] == sha1(b"one")


class Endless:
    """Two hundred mebibytes that nobody has to store."""

    size = 200 * PIECE

    async def open(self):
        for _ in range(200):
            yield bytes(PIECE)


async def test_large_refused_upload_stops_early(client, upload):
    await upload("a.txt")
    heard: list[int] = []
    wish = uploads.UploadAttributes(name="a.txt", parent=Reference(id="0"))
    with pytest.raises(errors.Conflict):
        await client.uploads.new_file(wish, Endless(), sha1="0" * 40, progress=heard.append)
    assert heard[-1] < Endless.size / 2


@pytest.mark.parametrize(
    ("name", "code"), [("a/b", "item_name_invalid"), ("x" * 256, "item_name_too_long"), ("..", None)]
)
async def test_a_name_that_is_none_is_refused(upload, name, code):
    with pytest.raises(errors.BadRequest) as caught:
        await upload(name)
    assert code in (None, caught.value.code)


async def test_upload_to_missing_folder(upload):
    with pytest.raises(errors.NotFound):
        await upload("a.txt", b"", parent="987654321")


async def test_damaged_bytes_are_not_kept(client):
    wish = uploads.UploadAttributes(name="a.txt", parent=Reference(id="0"))
    with pytest.raises(errors.IntegrityError):
        await client.uploads.new_file(wish, BytesSource(b"damaged"), sha1=sha1(b"whole"))
    assert "a.txt" not in [item.name async for item in client.folders.items("0")]


async def test_a_body_that_breaks_off_leaves_no_file(client, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(5 * PIECE))
    source = FileSource(path)
    path.write_bytes(bytes(2 * PIECE))
    wish = uploads.UploadAttributes(name="a.txt", parent=Reference(id="0"))
    with pytest.raises(SourceChanged):
        await client.uploads.new_file(wish, source, sha1=sha1(bytes(5 * PIECE)))
    assert "a.txt" not in [item.name async for item in client.folders.items("0")]


async def test_the_file_before_the_attributes_is_refused(way, client, upload):
    # Our own client cannot do this; what it does with the answer is its business all the same.
    auth = client.files._wire._auth
    parts = [("file", ("a", b"x" * 3 * PIECE)), ("attributes", (None, b'{"name":"a","parent":{"id":"0"}}'))]
    async with httpx.AsyncClient(transport=way.transport, auth=auth) as http:
        answer = await http.post(f"{way.endpoints.upload_url}/files/content", files=parts)
    assert (answer.status_code, answer.json()["code"]) == (400, "metadata_after_file_contents")
