"""The public API's own client asks for what the service makes of files, and says what it thinks of them."""

import io
import zipfile

import httpx
import pytest
import trio
from box_sdk_gen import (
    CreateCommentItem,
    CreateCommentItemTypeField,
    CreateFolderLockFolder,
    CreateFolderLockLockedOperations,
    CreateFolderParent,
    DownloadZipItems,
    DownloadZipItemsTypeField,
    GetFileThumbnailByIdExtension,
    UpdateFileByIdCollections,
    UpdateFileWatermarkWatermark,
    UploadFileAttributes,
    UploadFileAttributesParentField,
)
from PIL import Image

from cmsfs.service.renditions import indexing
from tests.support import sample_documents


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)


@pytest.fixture
def upload(client):
    def run(name, content):
        attributes = UploadFileAttributes(name=name, parent=UploadFileAttributesParentField(id="0"))
        return client.uploads.upload_file(attributes, io.BytesIO(content)).entries[0]

    return run


async def in_thread(function):
    """The client blocks; the service runs in this thread."""
    return await trio.to_thread.run_sync(function)


async def all_made(opened):
    with trio.fail_after(30):
        while True:
            written = opened.written
            if not opened.read("SELECT 1 FROM unindexed UNION ALL SELECT 1 FROM rendition WHERE state = 0"):
                return
            await written.wait()


async def test_document_text_is_found_and_fetched(client, sample, upload):
    def ask(file):
        return client.files.get_file_by_id(
            file.id, fields=["representations"], x_rep_hints="[extracted_text]"
        ).representations.entries[0]

    file = await in_thread(lambda: upload("a.pdf", sample_documents.pdf("capercaillie")))
    await in_thread(lambda: ask(file))
    await all_made(sample[0])
    entry = await in_thread(lambda: ask(file))
    assert entry.status.state.value == "success"
    found = await in_thread(
        lambda: client.search.search_for_content(query="capercaillie", content_types=["file_content"])
    )
    assert [one.id for one in found.entries] == [file.id]


async def test_a_thumbnail(client, sample, upload):
    def ask():
        return client.files.get_file_thumbnail_by_id(
            file.id, GetFileThumbnailByIdExtension.PNG, min_height=256, min_width=256
        )

    file = await in_thread(lambda: upload("a.png", sample_documents.picture(size=(1000, 500))))
    # Asked for before it is made, the client waits for as long as it is told to.
    await in_thread(ask)
    await all_made(sample[0])
    data = await in_thread(lambda: ask().read())
    assert Image.open(io.BytesIO(data)).size == (256, 128)


async def test_a_download_and_its_address(client, upload):
    content = bytes(range(256)) * 5000
    file = await in_thread(lambda: upload("a.bin", content))

    def run():
        downloads = client.downloads
        assert downloads.download_file(file.id).read() == content
        assert downloads.download_file(file.id, range="bytes=10-19").read() == content[10:20]
        target = io.BytesIO()
        downloads.download_file_to_output_stream(file.id, target)
        assert target.getvalue() == content
        return downloads.get_download_file_url(file.id)

    url = await in_thread(run)
    async with httpx.AsyncClient() as stranger:
        answer = await stranger.get(url, headers={"range": "bytes=0-4"})
    assert (answer.status_code, answer.content) == (206, content[:5])


async def test_a_comment_and_a_watermark(client, upload):
    file = await in_thread(lambda: upload("a.txt", b"x"))
    about = CreateCommentItem(id=file.id, type=CreateCommentItemTypeField.FILE)
    made = await in_thread(lambda: client.comments.create_comment("well said", about))
    assert (made.message, made.item.id) == ("well said", file.id)
    listed = await in_thread(lambda: client.comments.get_file_comments(file.id))
    assert [one.id for one in listed.entries] == [made.id]
    changed = await in_thread(lambda: client.comments.update_comment_by_id(made.id, message="said"))
    assert changed.message == "said"
    await in_thread(lambda: client.comments.delete_comment_by_id(made.id))
    mark = UpdateFileWatermarkWatermark()
    await in_thread(lambda: client.file_watermarks.update_file_watermark(file.id, mark))
    known = await in_thread(lambda: client.file_watermarks.get_file_watermark(file.id))
    assert known.watermark.created_at is not None
    full = await in_thread(lambda: client.files.get_file_by_id(file.id, fields=["watermark_info"]))
    assert full.watermark_info.is_watermarked is True
    await in_thread(lambda: client.file_watermarks.delete_file_watermark(file.id))


async def test_an_embed_link(client, upload):
    file = await in_thread(lambda: upload("a.txt", b"x"))
    full = await in_thread(lambda: client.files.get_file_by_id(file.id, fields=["expiring_embed_link"]))
    assert full.expiring_embed_link.access_token in full.expiring_embed_link.url
    assert full.expiring_embed_link.restricted_to[0].object.id == file.id


async def test_an_archive(client, upload):
    files = [await in_thread(lambda name=name: upload(name, name.encode())) for name in ("a.txt", "ä.txt")]
    items = [DownloadZipItems(id=file.id, type=DownloadZipItemsTypeField.FILE) for file in files]

    def run():
        data = client.zip_downloads.download_zip(items, download_file_name="both").read()
        asked = client.zip_downloads.create_zip_download(items)
        client.zip_downloads.get_zip_download_content(asked.download_url).read()
        return data, client.zip_downloads.get_zip_download_status(asked.status_url)

    data, status = await in_thread(run)
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert {name: found.read(name) for name in found.namelist()} == {
            "a.txt": b"a.txt",
            "ä.txt": "ä.txt".encode(),
        }
    assert (status.state.value, status.downloaded_file_count) == ("succeeded", 2)


async def test_favorites_recent_items_and_a_locked_folder(client, upload):
    file = await in_thread(lambda: upload("a.txt", b"x"))

    def run():
        (favorites,) = client.collections.get_collections().entries
        client.files.update_file_by_id(file.id, collections=[UpdateFileByIdCollections(id=favorites.id)])
        listed = client.collections.get_collection_items(favorites.id).entries
        recent = client.recent_items.get_recent_items().entries
        folder = client.folders.create_folder("kept", CreateFolderParent(id="0"))
        lock = client.folder_locks.create_folder_lock(
            CreateFolderLockFolder(id=folder.id, type="folder"),
            locked_operations=CreateFolderLockLockedOperations(move=True, delete=True),
        )
        known = client.folder_locks.get_folder_locks(folder.id).entries
        client.folder_locks.delete_folder_lock_by_id(lock.id)
        return favorites, listed, recent, lock, known

    favorites, listed, recent, lock, known = await in_thread(run)
    assert favorites.collection_type.value == "favorites"
    assert [one.id for one in listed] == [file.id]
    assert (recent[0].item.id, recent[0].interaction_type.value) == (file.id, "item_upload")
    assert [one.id for one in known] == [lock.id]
