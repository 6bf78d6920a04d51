"""The public API's own Python client, unmodified, does what administrators do."""

import io

import pytest
import trio
from box_sdk_gen import (
    BaseUrls,
    BoxAPIError,
    BoxCCGAuth,
    BoxClient,
    CCGConfig,
    CreateCollaborationWhitelistExemptTargetUser,
    CreateFileMetadataByIdScope,
    CreateFolderParent,
    CreateLegalHoldPolicyAssignmentAssignTo,
    CreateMetadataTemplateFields,
    CreateRetentionPolicyAssignmentAssignTo,
    CreateWebLinkParent,
    DeleteMetadataTemplateScope,
    GetUsersUserType,
    MetadataFilter,
    RestoreWeblinkFromTrashParent,
    UpdateFileMetadataByIdRequestBody,
    UpdateFileMetadataByIdScope,
    UploadFileAttributes,
    UploadFileAttributesParentField,
)

from cmsfs.service.provisioning import demo
from cmsfs.service.server import serve
from cmsfs.service.storage import store


@pytest.fixture
async def client(root, nursery):
    async with store.open_store(root) as opened:
        credentials = await demo.ensure_sample(opened)
        url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
        config = CCGConfig(
            client_id=credentials.client_id,
            client_secret=credentials.client_secret,
            user_id=credentials.user_id,
        )
        urls = BaseUrls(base_url=url, upload_url=f"{url}/api", oauth_2_url=f"{url}/api/oauth2")
        yield BoxClient(auth=BoxCCGAuth(config=config)).with_custom_base_urls(urls)


def upload(client, name="paper.txt"):
    attributes = UploadFileAttributes(name=name, parent=UploadFileAttributesParentField(id="0"))
    return client.uploads.upload_file(attributes, io.BytesIO(b"words")).entries[0]


async def in_thread(function):
    """The client blocks; the service runs in this thread."""
    return await trio.to_thread.run_sync(function)


async def test_users(client):
    def story():
        made = client.users.create_user(
            "Dora Demo", login="dora@example.com", job_title="Baker", space_amount=-1, fields=["job_title"]
        )
        assert (made.login, made.job_title) == ("dora@example.com", "Baker")
        with pytest.raises(BoxAPIError) as caught:
            client.users.create_user("Other", login="dora@example.com")
        assert caught.value.response_info.status_code == 409
        assert caught.value.response_info.body["code"] == "user_login_already_used"
        assert client.users.get_user_by_id(made.id, fields=["role"]).role == "user"
        found = client.users.get_users(filter_term="dora", user_type=GetUsersUserType.MANAGED)
        assert [one.id for one in found.entries] == [made.id]
        first = client.users.get_users(usemarker=True, limit=2)
        assert len(first.entries) == 2
        rest = client.users.get_users(usemarker=True, limit=1000, marker=first.next_marker)
        assert (len(rest.entries), rest.next_marker) == (3, None)
        assert client.users.get_users(offset=4, limit=5).total_count == 5
        assert client.users.update_user_by_id(made.id, phone="5").phone == "5"
        client.users.delete_user_by_id(made.id, force=True, notify=False)
        with pytest.raises(BoxAPIError):
            client.users.get_users(offset=10001)

    await in_thread(story)


async def test_legal_holds(client):
    def story():
        policies, assignments = client.legal_hold_policies, client.legal_hold_policy_assignments
        made = policies.create_legal_hold_policy("Case", description="why", is_ongoing=True)
        file = upload(client)
        held = assignments.create_legal_hold_policy_assignment(
            str(made.id), CreateLegalHoldPolicyAssignmentAssignTo("file", file.id)
        )
        on_hold = assignments.get_legal_hold_policy_assignment_file_on_hold(held.id)
        assert [one.id for one in on_hold.entries] == [file.id]
        changed = policies.update_legal_hold_policy_by_id(
            str(made.id), policy_name="Case 1", description="d", release_notes="r"
        )
        assert (changed.policy_name, changed.release_notes, changed.status) == ("Case 1", "r", "active")
        assert (changed.assignment_counts.file, changed.assignment_counts.file_version) == (1, 0)
        with pytest.raises(BoxAPIError) as caught:
            policies.update_legal_hold_policy_by_id(str(made.id), policy_name="Harbour Bridge permits")
        assert caught.value.response_info.status_code == 409
        found = policies.get_legal_hold_policies(policy_name="cASE", limit=5)
        assert [one.policy_name for one in found.entries] == ["Case 1"]
        assert (found.limit, found.next_marker, found.prev_marker) == (5, None, None)
        listed = assignments.get_legal_hold_policy_assignments(str(made.id))
        assert [one.id for one in listed.entries] == [held.id]
        client.files.delete_file_by_id(file.id)
        with pytest.raises(BoxAPIError) as caught:
            client.trashed_files.delete_trashed_file_by_id(file.id)
        assert caught.value.response_info.body["code"] == "forbidden_by_policy"
        assignments.delete_legal_hold_policy_assignment_by_id(held.id)
        policies.delete_legal_hold_policy_by_id(str(made.id))
        assert policies.get_legal_hold_policy_by_id(str(made.id)).status in ("releasing", "released")

    await in_thread(story)


async def test_retention(client):
    def story():
        policies, assignments = client.retention_policies, client.retention_policy_assignments
        made = policies.create_retention_policy("Year", "finite", "remove_retention", retention_length=365)
        folder = client.folders.create_folder("kept", CreateFolderParent(id="0"))
        target = CreateRetentionPolicyAssignmentAssignTo("folder", id=folder.id)
        assigned = assignments.create_retention_policy_assignment(made.id, target)
        got = assignments.get_retention_policy_assignment_by_id(str(assigned.id))
        assert (got.id, got.retention_policy.id, got.assigned_to.id) == (assigned.id, made.id, folder.id)
        assert (got.retention_policy.retention_length, got.assigned_by.login) == ("365", "ada@example.com")
        listed = assignments.get_retention_policy_assignments(made.id)
        assert [one.id for one in listed.entries] == [assigned.id]
        under = assignments.get_files_under_retention_policy_assignment(str(assigned.id))
        assert under.entries == []
        assert policies.update_retention_policy_by_id(made.id, retention_length=400).retention_length == "400"
        assert len(policies.get_retention_policies(policy_name="Year").entries) == 2
        assignments.delete_retention_policy_assignment_by_id(str(assigned.id))
        policies.delete_retention_policy_by_id(made.id)

    await in_thread(story)


async def test_metadata(client):
    def story():
        options = [{"key": "open"}, {"key": "paid"}]
        fields = [
            CreateMetadataTemplateFields("string", "customer", "Customer"),
            CreateMetadataTemplateFields("enum", "state", "State", options=options),
        ]
        templates, on_files = client.metadata_templates, client.file_metadata
        made = templates.create_metadata_template("enterprise", "Bill", template_key="bill", fields=fields)
        assert (made.template_key, made.fields[1].options[1].key) == ("bill", "paid")
        assert templates.get_metadata_template("enterprise", "bill").id == made.id
        assert [one.template_key for one in templates.get_enterprise_metadata_templates().entries] == [
            "project",
            "bill",
        ]
        file = upload(client)
        create, change = CreateFileMetadataByIdScope.ENTERPRISE, UpdateFileMetadataByIdScope.ENTERPRISE
        instance = on_files.create_file_metadata_by_id(
            file.id, create, "bill", {"customer": "Ada", "state": "open"}
        )
        assert (instance.template, instance.extra_data["customer"]) == ("bill", "Ada")
        patch = [
            UpdateFileMetadataByIdRequestBody(op="test", path="/state", value="open"),
            UpdateFileMetadataByIdRequestBody(op="replace", path="/state", value="paid"),
        ]
        assert on_files.update_file_metadata_by_id(file.id, change, "bill", patch).version == 1
        with pytest.raises(BoxAPIError) as caught:
            on_files.update_file_metadata_by_id(file.id, change, "bill", patch)
        assert caught.value.response_info.status_code == 409
        wanted = MetadataFilter(scope="enterprise", template_key="bill", filters={"state": "paid"})
        found = client.search.search_for_content(mdfilters=[wanted])
        assert [one.id for one in found.entries] == [file.id]
        assert len(on_files.get_file_metadata(file.id).entries) == 1
        templates.delete_metadata_template(DeleteMetadataTemplateScope.ENTERPRISE, "bill")
        assert on_files.get_file_metadata(file.id).entries == []
        with pytest.raises(BoxAPIError) as caught:
            templates.delete_metadata_template(DeleteMetadataTemplateScope.GLOBAL, "properties")
        assert caught.value.response_info.status_code == 403

    await in_thread(story)


async def test_exemptions(client):
    def story():
        targets = client.collaboration_allowlist_exempt_targets
        there = targets.get_collaboration_whitelist_exempt_targets(limit=5).entries
        assert [one.user.login for one in there] == ["cleo@example.com"]
        one = targets.get_collaboration_whitelist_exempt_target_by_id(there[0].id)
        assert (one.id, one.enterprise.name) == (there[0].id, "Example Enterprise")
        me = client.users.get_user_me().id
        user = CreateCollaborationWhitelistExemptTargetUser(id=me)
        made = targets.create_collaboration_whitelist_exempt_target(user)
        assert made.user.id == me
        targets.delete_collaboration_whitelist_exempt_target_by_id(made.id)

    await in_thread(story)


async def test_web_links_come_back(client):
    def story():
        folder = client.folders.create_folder("more links", CreateFolderParent(id="0"))
        parent = CreateWebLinkParent(id=folder.id)
        link = client.web_links.create_web_link("https://example.com", parent, name="site")
        client.web_links.delete_web_link_by_id(link.id)
        client.folders.delete_folder_by_id(folder.id)
        restore = client.trashed_web_links.restore_weblink_from_trash
        with pytest.raises(BoxAPIError) as caught:
            restore(link.id)
        assert caught.value.response_info.status_code == 403
        back = restore(link.id, name="new", parent=RestoreWeblinkFromTrashParent(id="0"))
        assert (back.name, back.parent.id, back.item_status) == ("new", "0", "active")
        with pytest.raises(BoxAPIError) as caught:
            restore(link.id)
        assert caught.value.response_info.body["code"] == "not_trashed"

    await in_thread(story)
