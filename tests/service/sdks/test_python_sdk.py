"""The public API's own Python client, unmodified, against the service on a socket."""

import io

import pytest
import trio
from box_sdk_gen import (
    BoxAPIError,
    CreateFolderParent,
    CreateWebLinkParent,
    PreflightFileUploadCheckParent,
    UpdateFileByIdParent,
    UploadFileAttributes,
    UploadFileAttributesParentField,
    UploadFileVersionAttributes,
    UploadWithPreflightCheckAttributes,
    UploadWithPreflightCheckAttributesParentField,
)


@pytest.fixture
def upload(client):
    def run(name, content, parent="0"):
        attributes = UploadFileAttributes(name=name, parent=UploadFileAttributesParentField(id=parent))
        return client.uploads.upload_file(attributes, io.BytesIO(content)).entries[0]

    return run


async def in_thread(function):
    """The client blocks; the service runs in this thread."""
    return await trio.to_thread.run_sync(function)


async def test_who_am_i(client, sample):
    me = await in_thread(client.users.get_user_me)
    assert (me.id, me.login) == (sample[1].user_id, "ada@example.com")
    assert (await in_thread(lambda: client.users.get_user_by_id(me.id))).name == "Ada Example"


async def test_search(client):
    found = await in_thread(
        lambda: client.search.search_for_content(
            query="budget", ancestor_folder_ids=["0"], type="file", file_extensions=["csv"], fields=["size"]
        )
    )
    assert [one.name for one in found.entries] == ["Budget 2026.csv"]
    assert found.entries[0].size > 100
    shared = await in_thread(
        lambda: client.search.search_for_content(query="budget", include_recent_shared_links=True)
    )
    assert shared.entries[0].item.name == "Budget 2026.csv"


async def test_folders_and_files(client, upload):
    def story():
        folder = client.folders.create_folder("sdk", CreateFolderParent(id="0"))
        file = upload("a.txt", b"hello", folder.id)
        assert client.downloads.download_file(file.id).read() == b"hello"
        new = client.uploads.upload_file_version(
            file.id, UploadFileVersionAttributes(name="b.txt"), io.BytesIO(b"more"), if_match=file.etag
        ).entries[0]
        assert (new.id, new.name, new.etag) == (file.id, "b.txt", "1")
        assert client.downloads.download_file(file.id, range="bytes=1-2").read() == b"or"
        listed = client.folders.get_folder_items(folder.id, usemarker=True, limit=10)
        assert [one.name for one in listed.entries] == ["b.txt"]
        moved = client.files.update_file_by_id(file.id, name="c.txt", parent=UpdateFileByIdParent(id="0"))
        assert moved.path_collection.entries[-1].id == "0"
        client.files.delete_file_by_id(file.id)
        assert client.trashed_files.get_trashed_file_by_id(file.id).item_status == "trashed"
        back = client.trashed_files.restore_file_from_trash(file.id)
        assert back.item_status == "active"
        client.folders.delete_folder_by_id(folder.id)
        client.trashed_folders.restore_folder_from_trash(folder.id)
        full = client.folders.get_folder_by_id(folder.id)
        assert full.item_collection.total_count == 0

    await in_thread(story)


async def test_upload_after_asking(client):
    def story():
        attributes = UploadWithPreflightCheckAttributes(
            name="asked.txt", size=5, parent=UploadWithPreflightCheckAttributesParentField(id="0")
        )
        file = client.uploads.upload_with_preflight_check(attributes, io.BytesIO(b"hello")).entries[0]
        assert file.size == 5
        with pytest.raises(BoxAPIError) as raised:
            parent = PreflightFileUploadCheckParent(id="0")
            client.uploads.preflight_file_upload_check(name="ASKED.txt", size=5, parent=parent)
        assert raised.value.response_info.status_code == 409
        assert raised.value.response_info.body["code"] == "item_name_in_use"

    await in_thread(story)


async def test_web_links(client):
    def story():
        link = client.web_links.create_web_link(
            "https://example.com", CreateWebLinkParent(id="0"), name="site"
        )
        client.web_links.delete_web_link_by_id(link.id)
        back = client.trashed_web_links.restore_weblink_from_trash(link.id, name="again")
        assert (back.id, back.name) == (link.id, "again")
        assert client.web_links.get_web_link_by_id(link.id).url == "https://example.com"

    await in_thread(story)


async def test_a_token_can_be_revoked(client):
    def story():
        client.users.get_user_me()
        old = client.auth.retrieve_token().access_token
        client.auth.revoke_token(network_session=client.network_session)
        # The next call has another one.
        client.users.get_user_me()
        assert client.auth.retrieve_token().access_token != old

    await in_thread(story)
