"""The public API's own Python client, unmodified, manages what belongs to an enterprise and its users."""

import io

import pytest
import trio
from box_sdk_gen import (
    BoxAPIError,
    CreateInviteActionableBy,
    CreateInviteEnterprise,
    TransferOwnedFolderOwnedBy,
    UploadFileAttributes,
    UploadFileAttributesParentField,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def test_users(client):
    def story():
        me = client.users.get_user_me(fields=["enterprise"])
        other = client.users.create_user("Dora Demo", login="dora@example.com")
        attributes = UploadFileAttributes(name="p", parent=UploadFileAttributesParentField(id="0"))
        file = (
            client.with_as_user_header(other.id).uploads.upload_file(attributes, io.BytesIO(b"x")).entries[0]
        )
        owner = TransferOwnedFolderOwnedBy(me.id)
        made = client.transfer.transfer_owned_folder(
            other.id, owner, fields=["name", "owned_by"], notify=False
        )
        assert (made.name, made.owned_by.id) == ("Dora Demo's Files and Folders", me.id)
        assert client.files.get_file_by_id(file.id).owned_by.id == me.id
        alias = client.email_aliases.create_user_email_alias(other.id, "d@example.com")
        assert (alias.email, alias.is_confirmed) == ("d@example.com", True)
        listed = client.email_aliases.get_user_email_aliases(other.id)
        assert ([one.id for one in listed.entries], listed.total_count) == ([alias.id], 1)
        client.email_aliases.delete_user_email_alias_by_id(other.id, alias.id)
        picture = client.avatars.create_user_avatar(
            other.id, io.BytesIO(PNG), pic_file_name="me.png", pic_content_type="image/png"
        )
        assert picture.pic_urls.large
        assert client.avatars.get_user_avatar(other.id).read() == PNG
        client.avatars.delete_user_avatar(other.id)
        with pytest.raises(BoxAPIError) as caught:
            client.invites.create_invite(
                CreateInviteEnterprise(me.enterprise.id), CreateInviteActionableBy(login="dora@example.com")
            )
        assert caught.value.response_info.status_code == 409
        ended = client.session_termination.terminate_users_sessions([other.id], [])
        assert ended.message
        client.users.delete_user_by_id(other.id)

    await trio.to_thread.run_sync(story)
