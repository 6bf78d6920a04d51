"""The public API's own Python client, unmodified, manages what belongs to an enterprise and its users."""

import io

import pytest
import trio
from box_sdk_gen import (
    BoxAPIError,
    CreateInviteActionableBy,
    CreateInviteEnterprise,
    CreateStoragePolicyAssignmentAssignedTo,
    CreateStoragePolicyAssignmentAssignedToTypeField,
    CreateStoragePolicyAssignmentStoragePolicy,
    CreateTermsOfServiceStatus,
    CreateTermsOfServiceStatusForUserTos,
    CreateTermsOfServiceStatusForUserUser,
    CreateTermsOfServiceTosType,
    GetStoragePolicyAssignmentsResolvedForType,
    TransferOwnedFolderOwnedBy,
    UpdateStoragePolicyAssignmentByIdStoragePolicy,
    UpdateTermsOfServiceByIdStatus,
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


async def test_terms_of_service(client):
    def story():
        me, terms = client.users.get_user_me(), client.terms_of_services
        made = terms.create_terms_of_service(
            CreateTermsOfServiceStatus.ENABLED, "Be kind.", tos_type=CreateTermsOfServiceTosType.MANAGED
        )
        assert [one.id for one in terms.get_terms_of_service().entries] == [made.id]
        changed = terms.update_terms_of_service_by_id(
            made.id, UpdateTermsOfServiceByIdStatus.DISABLED, "Be nice."
        )
        assert (changed.text, changed.tos_type.value) == ("Be nice.", "managed")
        statuses = client.terms_of_service_user_statuses
        status = statuses.create_terms_of_service_status_for_user(
            CreateTermsOfServiceStatusForUserTos(made.id), CreateTermsOfServiceStatusForUserUser(me.id), True
        )
        (found,) = statuses.get_terms_of_service_user_statuses(made.id).entries
        assert (found.id, found.is_accepted, found.tos.id) == (status.id, True, made.id)
        declined = statuses.update_terms_of_service_status_for_user_by_id(status.id, False)
        assert declined.is_accepted is False

    await trio.to_thread.run_sync(story)


async def test_storage_policies_and_pinned_devices(client):
    def story():
        me = client.users.get_user_me(fields=["enterprise"])
        (policy,) = client.storage_policies.get_storage_policies().entries
        assert client.storage_policies.get_storage_policy_by_id(policy.id).name == policy.name
        assignments = client.storage_policy_assignments
        made = assignments.create_storage_policy_assignment(
            CreateStoragePolicyAssignmentStoragePolicy(policy.id),
            CreateStoragePolicyAssignmentAssignedTo(
                CreateStoragePolicyAssignmentAssignedToTypeField.USER, me.id
            ),
        )
        resolved = GetStoragePolicyAssignmentsResolvedForType.USER
        (found,) = assignments.get_storage_policy_assignments(resolved, me.id).entries
        assert (found.id, found.storage_policy.id) == (made.id, policy.id)
        assignments.update_storage_policy_assignment_by_id(
            made.id, UpdateStoragePolicyAssignmentByIdStoragePolicy(policy.id)
        )
        assert assignments.get_storage_policy_assignment_by_id(made.id).assigned_to.id == me.id
        assignments.delete_storage_policy_assignment_by_id(made.id)
        assert client.device_pinners.get_enterprise_device_pinners(me.enterprise.id).entries == []

    await trio.to_thread.run_sync(story)


async def test_versions_on_hold_and_retained(client):
    def story():
        policies = client.legal_hold_policies.get_legal_hold_policies().entries
        held = [
            one
            for policy in policies
            for one in client.file_version_legal_holds.get_file_version_legal_holds(str(policy.id)).entries
        ]
        assert held
        one = client.file_version_legal_holds.get_file_version_legal_hold_by_id(held[0].id)
        assert one.legal_hold_policy_assignments and one.file_version.id == held[0].file_version.id
        retained = client.file_version_retentions.get_file_version_retentions(limit=5).entries
        assert retained
        found = client.file_version_retentions.get_file_version_retention_by_id(retained[0].id)
        assert found.winning_retention_policy.policy_name and found.file.id

    await trio.to_thread.run_sync(story)
