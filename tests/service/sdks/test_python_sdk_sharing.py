"""The public API's own Python client, unmodified, shares, answers invitations and reads what happened."""

import io

import pytest
import trio
from box_sdk_gen import (
    BaseUrls,
    BoxAPIError,
    BoxCCGAuth,
    BoxClient,
    CCGConfig,
    CreateCollaborationAccessibleBy,
    CreateCollaborationAccessibleByTypeField,
    CreateCollaborationItem,
    CreateCollaborationItemTypeField,
    CreateCollaborationRole,
    CreateCollaborationWhitelistEntryDirection,
    CreateFolderParent,
    GetCollaborationsStatus,
    GetEventsStreamType,
    UpdateCollaborationByIdRole,
    UpdateCollaborationByIdStatus,
    UploadFileAttributes,
    UploadFileAttributesParentField,
)

from cmsfs.service.oauth import clients
from cmsfs.service.provisioning import demo
from cmsfs.service.server import serve
from cmsfs.service.storage import store

OTHER_SECRET = "a secret of another enterprise"


@pytest.fixture
async def everybody(root, nursery):
    """Clients of the sample's Ada and Ben, and of Eva of another enterprise."""
    async with store.open_store(root) as opened:
        credentials = await demo.ensure_sample(opened)
        url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))

        def fill(conn):
            number = demo.add_enterprise(conn, "Elsewhere", now=opened.now())
            eva = demo.add_user(conn, number, "Eva", "eva@elsewhere.example", role="admin", now=opened.now())
            clients.add(
                *(conn, "other", OTHER_SECRET),
                name="Other",
                enterprise=number,
                service_user=eva["id"],
                scopes="root_readwrite",
                grants="client_credentials",
                redirect_uris=(),
            )
            return eva["id"]

        eva = await opened.write(fill)
        ben = opened.read("SELECT id FROM account WHERE login = 'ben@example.com'")[0]["id"]
        urls = BaseUrls(base_url=url, upload_url=f"{url}/api", oauth_2_url=f"{url}/api/oauth2")

        def client(client_id, secret, user):
            config = CCGConfig(client_id=client_id, client_secret=secret, user_id=str(user))
            return BoxClient(auth=BoxCCGAuth(config=config)).with_custom_base_urls(urls)

        yield (
            client(credentials.client_id, credentials.client_secret, credentials.user_id),
            client(credentials.client_id, credentials.client_secret, ben),
            client("other", OTHER_SECRET, eva),
        )


async def in_thread(function):
    """The client blocks; the service runs in this thread."""
    return await trio.to_thread.run_sync(function)


def folder_of(client, name="shared"):
    folder = client.folders.create_folder(name, CreateFolderParent(id="0"))
    attributes = UploadFileAttributes(name="a.txt", parent=UploadFileAttributesParentField(id=folder.id))
    return folder, client.uploads.upload_file(attributes, io.BytesIO(b"words")).entries[0]


def invite(client, item, login, role, **more):
    return client.user_collaborations.create_collaboration(
        CreateCollaborationItem(type=CreateCollaborationItemTypeField(item.type.value), id=item.id),
        CreateCollaborationAccessibleBy(type=CreateCollaborationAccessibleByTypeField.USER, login=login),
        role,
        **more,
    )


async def test_sharing(everybody):
    ada, ben, _ = everybody

    def story():
        folder, file = folder_of(ada)
        made = invite(ada, folder, "ben@example.com", CreateCollaborationRole.VIEWER_UPLOADER, notify=False)
        assert (made.status.value, made.role.value) == ("accepted", "viewer uploader")
        assert made.item.id == folder.id
        assert ben.downloads.download_file(file.id).read() == b"words"
        assert [one.name for one in ben.folders.get_folder_items("0").entries] == ["shared"]
        with pytest.raises(BoxAPIError) as caught:
            ben.files.delete_file_by_id(file.id)
        assert caught.value.response_info.status_code == 403
        again = ada.user_collaborations.update_collaboration_by_id(
            made.id, role=UpdateCollaborationByIdRole.EDITOR
        )
        assert again.role.value == "editor"
        ben.files.update_file_by_id(file.id, name="b.txt")
        listed = ben.list_collaborations.get_folder_collaborations(folder.id)
        assert [one.accessible_by.login for one in listed.entries] == ["ben@example.com"]
        assert ben.list_collaborations.get_file_collaborations(file.id).entries[0].id == made.id
        assert ben.user_collaborations.get_collaboration_by_id(made.id).created_by.login == "ada@example.com"
        full = ben.folders.get_folder_by_id(
            folder.id, fields=["permissions", "has_collaborations", "allowed_invitee_roles"]
        )
        assert full.permissions.can_invite_collaborator
        assert full.has_collaborations
        # The item changes hands: the answer has no body.
        assert (
            ada.user_collaborations.update_collaboration_by_id(
                made.id, role=UpdateCollaborationByIdRole.OWNER
            )
            is None
        )
        assert ada.folders.get_folder_by_id(folder.id).owned_by.login == "ben@example.com"
        [back] = ben.list_collaborations.get_folder_collaborations(folder.id).entries
        assert (back.role, back.accessible_by.login) == ("co-owner", "ada@example.com")
        ben.user_collaborations.delete_collaboration_by_id(back.id)
        with pytest.raises(BoxAPIError) as caught:
            ada.folders.get_folder_by_id(folder.id)
        assert caught.value.response_info.status_code == 404

    await in_thread(story)


async def test_invitations(everybody):
    ada, _, eva = everybody

    def story():
        folder, file = folder_of(ada)
        made = invite(ada, folder, "eva@elsewhere.example", CreateCollaborationRole.VIEWER)
        assert made.status.value == "pending"
        waiting = eva.list_collaborations.get_collaborations(GetCollaborationsStatus.PENDING)
        assert [one.id for one in waiting.entries] == [made.id]
        eva.user_collaborations.update_collaboration_by_id(
            made.id, status=UpdateCollaborationByIdStatus.ACCEPTED
        )
        assert eva.downloads.download_file(file.id).read() == b"words"
        seen = eva.files.get_file_by_id(file.id, fields=["is_externally_owned", "path_collection"])
        assert seen.is_externally_owned
        assert [one.name for one in seen.path_collection.entries] == ["All Files", "shared"]
        other, _ = folder_of(ada, "other")
        made = invite(ada, other, "eva@elsewhere.example", CreateCollaborationRole.EDITOR)
        eva.user_collaborations.update_collaboration_by_id(
            made.id, status=UpdateCollaborationByIdStatus.REJECTED
        )
        assert ada.list_collaborations.get_folder_collaborations(other.id).entries == []

    await in_thread(story)


async def test_domains_and_events(everybody):
    ada, _, eva = everybody

    def story():
        position = ada.events.get_events(
            stream_type=GetEventsStreamType.ADMIN_LOGS_STREAMING, stream_position="now"
        ).next_stream_position
        domains = ada.collaboration_allowlist_entries
        entry = domains.create_collaboration_whitelist_entry(
            "friends.example", CreateCollaborationWhitelistEntryDirection.INBOUND
        )
        assert [one.id for one in domains.get_collaboration_whitelist_entries().entries] == [entry.id]
        folder, _ = folder_of(ada)
        with pytest.raises(BoxAPIError) as caught:
            invite(ada, folder, "eva@elsewhere.example", CreateCollaborationRole.VIEWER)
        assert caught.value.response_info.body["code"] == "forbidden_by_policy"
        domains.delete_collaboration_whitelist_entry_by_id(entry.id)
        invite(ada, folder, "eva@elsewhere.example", CreateCollaborationRole.VIEWER)
        page = ada.events.get_events(
            stream_type=GetEventsStreamType.ADMIN_LOGS_STREAMING, stream_position=str(position)
        )
        assert [one.event_type.value for one in page.entries] == [
            *("ITEM_CREATE", "UPLOAD", "COLLABORATION_INVITE")
        ]
        told = eva.events.get_events(stream_position="0").entries
        assert [one.event_type.value for one in told] == ["COLLAB_INVITE_COLLABORATOR"]

    await in_thread(story)
