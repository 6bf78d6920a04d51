"""The public API's own Python client, unmodified, works with groups, tasks and webhooks."""

import io
from datetime import UTC, datetime

import pytest
import trio
from box_sdk_gen import (
    BoxAPIError,
    CreateCollaborationAccessibleBy,
    CreateCollaborationAccessibleByTypeField,
    CreateCollaborationItem,
    CreateCollaborationItemTypeField,
    CreateCollaborationRole,
    CreateFolderParent,
    CreateGroupInvitabilityLevel,
    CreateGroupMembershipGroup,
    CreateGroupMembershipRole,
    CreateGroupMembershipUser,
    CreateTaskAction,
    CreateTaskAssignmentAssignTo,
    CreateTaskAssignmentTask,
    CreateTaskAssignmentTaskTypeField,
    CreateTaskCompletionRule,
    CreateTaskItem,
    CreateTaskItemTypeField,
    CreateWebhookTarget,
    CreateWebhookTargetTypeField,
    CreateWebhookTriggers,
    UpdateGroupMembershipByIdRole,
    UpdateTaskAssignmentByIdResolutionState,
    UpdateWebhookByIdTriggers,
    UploadFileAttributes,
    UploadFileAttributesParentField,
)


async def test_groups(client):
    def story():
        made = client.groups.create_group(
            "Builders",
            description="All of them",
            invitability_level=CreateGroupInvitabilityLevel.ADMINS_ONLY,
            fields=["name", "description", "invitability_level"],
        )
        assert (made.name, made.description) == ("Builders", "All of them")
        assert made.invitability_level.value == "admins_only"
        with pytest.raises(BoxAPIError) as caught:
            client.groups.create_group("builders")
        assert caught.value.response_info.status_code == 409
        assert [one.id for one in client.groups.get_groups(filter_term="Bui").entries] == [made.id]
        assert client.groups.update_group_by_id(made.id, name="Painters").name == "Painters"
        ben = client.users.get_users(filter_term="ben@example.com").entries[0]
        member = client.memberships.create_group_membership(
            CreateGroupMembershipUser(id=ben.id),
            CreateGroupMembershipGroup(id=made.id),
            role=CreateGroupMembershipRole.MEMBER,
        )
        assert (member.user.login, member.group.name) == ("ben@example.com", "Painters")
        again = client.memberships.update_group_membership_by_id(
            member.id, role=UpdateGroupMembershipByIdRole.ADMIN
        )
        assert again.role.value == "admin"
        assert client.memberships.get_group_memberships(made.id).total_count == 1
        assert client.memberships.get_user_memberships(ben.id).entries[0].id == member.id
        folder = client.folders.create_folder("walls", CreateFolderParent(id="0"))
        shared = client.user_collaborations.create_collaboration(
            CreateCollaborationItem(type=CreateCollaborationItemTypeField.FOLDER, id=folder.id),
            CreateCollaborationAccessibleBy(type=CreateCollaborationAccessibleByTypeField.GROUP, id=made.id),
            CreateCollaborationRole.VIEWER,
        )
        assert (shared.accessible_by.type.value, shared.accessible_by.name) == ("group", "Painters")
        listed = client.list_collaborations.get_group_collaborations(made.id)
        assert [one.item.name for one in listed.entries] == ["walls"]
        client.memberships.delete_group_membership_by_id(member.id)
        client.groups.delete_group_by_id(made.id)
        with pytest.raises(BoxAPIError) as caught:
            client.groups.get_group_by_id(made.id)
        assert caught.value.response_info.status_code == 404

    await trio.to_thread.run_sync(story)


async def test_tasks(client):
    def story():
        me = client.users.get_user_me()
        attributes = UploadFileAttributes(name="plan.txt", parent=UploadFileAttributesParentField(id="0"))
        file = client.uploads.upload_file(attributes, io.BytesIO(b"plan")).entries[0]
        due = datetime(2030, 1, 2, tzinfo=UTC)
        task = client.tasks.create_task(
            CreateTaskItem(id=file.id, type=CreateTaskItemTypeField.FILE),
            action=CreateTaskAction.REVIEW,
            message="Look",
            due_at=due,
            completion_rule=CreateTaskCompletionRule.ANY_ASSIGNEE,
        )
        assert (task.message, task.item.id, task.due_at, task.is_completed) == ("Look", file.id, due, False)
        made = client.task_assignments.create_task_assignment(
            CreateTaskAssignmentTask(id=task.id, type=CreateTaskAssignmentTaskTypeField.TASK),
            CreateTaskAssignmentAssignTo(id=me.id),
        )
        done = client.task_assignments.update_task_assignment_by_id(
            made.id, resolution_state=UpdateTaskAssignmentByIdResolutionState.APPROVED
        )
        assert done.resolution_state.value == "approved"
        assert client.task_assignments.get_task_assignments(task.id).entries[0].assigned_to.id == me.id
        assert client.tasks.get_file_tasks(file.id).entries[0].is_completed
        assert client.tasks.update_task_by_id(task.id, message="Thanks").message == "Thanks"
        with pytest.raises(BoxAPIError, match="The assignment is resolved"):
            client.task_assignments.delete_task_assignment_by_id(made.id)
        client.tasks.delete_task_by_id(task.id)
        with pytest.raises(BoxAPIError) as caught:
            client.tasks.get_task_by_id(task.id)
        assert caught.value.response_info.status_code == 404

    await trio.to_thread.run_sync(story)


async def test_webhooks(client):
    def story():
        folder = client.folders.create_folder("watched", CreateFolderParent(id="0"))
        made = client.webhooks.create_webhook(
            CreateWebhookTarget(id=folder.id, type=CreateWebhookTargetTypeField.FOLDER),
            "https://receiver.example.com/in",
            [CreateWebhookTriggers.FILE_UPLOADED],
        )
        assert (made.target.id, made.triggers) == (folder.id, ["FILE.UPLOADED"])
        assert [one.id for one in client.webhooks.get_webhooks().entries] == [made.id]
        changed = client.webhooks.update_webhook_by_id(
            made.id, triggers=[UpdateWebhookByIdTriggers.FILE_MOVED]
        )
        assert changed.triggers == ["FILE.MOVED"]
        assert client.webhooks.get_webhook_by_id(made.id).address == "https://receiver.example.com/in"
        client.webhooks.delete_webhook_by_id(made.id)
        with pytest.raises(BoxAPIError) as caught:
            client.webhooks.get_webhook_by_id(made.id)
        assert caught.value.response_info.status_code == 404

    await trio.to_thread.run_sync(story)
