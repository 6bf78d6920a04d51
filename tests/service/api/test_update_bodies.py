"""What a change may name: everything that it names is done, or it is refused."""

import pytest

from cmsfs.service.api import operations
from cmsfs.service.server import app
from tests.support.sharing import share


@pytest.fixture
async def things(api, uwe):
    folder = await api.folder("folder")
    file = await api.upload("a.txt", b"1")
    old = file["file_version"]["id"]
    await api.version(file["id"], b"2")
    link = await api.link("link")
    item = {"type": "file", "id": file["id"]}
    comment = await api.ask("POST", "/comments", json={"message": "m", "item": item}, expect=201)
    policy = {"policy_name": "p", "policy_type": "finite", "retention_length": 1}
    policy |= {"disposition_action": "remove_retention"}
    retention = await api.ask("POST", "/retention_policies", json=policy, expect=201)
    hold = await api.ask(
        "POST", "/legal_hold_policies", json={"policy_name": "h", "is_ongoing": True}, expect=201
    )
    group = await api.ask("POST", "/groups", json={"name": "g"}, expect=201)
    member = {"user": {"id": str(uwe.user)}, "group": {"id": group["id"]}}
    membership = await api.ask("POST", "/group_memberships", json=member, expect=201)
    task = await api.ask("POST", "/tasks", json={"item": item}, expect=201)
    wish = {"task": {"id": task["id"]}, "assign_to": {"id": str(uwe.user)}}
    shared = await share(api, folder, uwe)
    await share(api, file, uwe, "viewer")
    assignment = await api.ask("POST", "/task_assignments", json=wish, expect=201)
    hook = {"target": item, "address": "https://r.example.com/", "triggers": ["FILE.MOVED"]}
    webhook = await api.ask("POST", "/webhooks", json=hook, expect=201)
    terms = await api.ask("POST", "/terms_of_services", json={"status": "enabled", "text": "t"}, expect=201)
    agreed = {"tos": {"id": terms["id"]}, "user": {"id": str(uwe.user)}, "is_accepted": True}
    status = await uwe.ask("POST", "/terms_of_service_user_statuses", json=agreed, expect=201)
    return {
        "PUT /terms_of_services/{id}": f"/terms_of_services/{terms['id']}",
        "PUT /terms_of_service_user_statuses/{id}": f"/terms_of_service_user_statuses/{status['id']}",
        "PUT /storage_policy_assignments/{id}": "/storage_policy_assignments/enterprise_1",
        "PUT /groups/{id}": f"/groups/{group['id']}",
        "PUT /group_memberships/{id}": f"/group_memberships/{membership['id']}",
        "PUT /tasks/{id}": f"/tasks/{task['id']}",
        "PUT /task_assignments/{id}": f"/task_assignments/{assignment['id']}",
        "PUT /webhooks/{id}": f"/webhooks/{webhook['id']}",
        "PUT /files/{id}": f"/files/{file['id']}",
        "PUT /folders/{id}": f"/folders/{folder['id']}",
        "PUT /web_links/{id}": f"/web_links/{link['id']}",
        "PUT /users/{id}": f"/users/{uwe.user}",
        "PUT /comments/{id}": f"/comments/{comment['id']}",
        "PUT /files/{id}/versions/{version}": f"/files/{file['id']}/versions/{old}",
        "PUT /collaborations/{id}": f"/collaborations/{shared['id']}",
        "PUT /retention_policies/{id}": f"/retention_policies/{retention['id']}",
        "PUT /legal_hold_policies/{id}": f"/legal_hold_policies/{hold['id']}",
    }


# Not a change of fields: a content, a list of operations, a mark, a transfer.
OTHERS = ("/upload_sessions/", "/metadata", "/watermark", "/folders/0")


async def test_no_change_drops_a_field_silently(api, things):
    lines = {
        one.line
        for one in app.API
        if isinstance(one, operations.Operation)
        and one.method == "PUT"
        and not any(word in one.line for word in OTHERS)
    }
    assert lines == set(things)
    for line, path in things.items():
        for name, value in (("nonsense", 1), ("id", "1"), ("created_at", None), ("metadata", {})):
            refused = await api.ask("PUT", path, json={name: value}, expect=400)
            assert refused["context_info"]["errors"][0]["name"] == name, line
            assert "cannot be changed" in refused["message"], line


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("PUT /files/{id}", {"disposition_at": "2030-01-01T00:00:00Z"}),
        ("PUT /files/{id}", {"name": "b.txt", "collections": [{"id": "1"}]}),
        ("PUT /files/{id}", {"name": "b.txt", "size": 5}),
        ("PUT /files/{id}", {"name": "b.txt", "sync_state": "synced"}),
        ("PUT /files/{id}", {"name": "b.txt", "can_non_owners_invite": False}),
        ("PUT /files/{id}", {"shared_link": {"vanity_name": "mine"}}),
        ("PUT /folders/{id}", {"name": "b", "lock": None}),
        ("PUT /folders/{id}", {"name": "b", "folder_upload_email": {"access": "open"}}),
        ("PUT /web_links/{id}", {"name": "b", "tags": ["x"]}),
        ("PUT /users/{id}", {"name": "Other", "space_used": 1}),
        ("PUT /users/{id}", {"name": "Other", "is_password_reset_required": True}),
    ],
)
async def test_a_change_that_cannot_be_done_changes_nothing(api, things, line, change):
    before = await api.ask("GET", things[line])
    await api.ask("PUT", things[line], json=change, expect=400)
    assert await api.ask("GET", things[line]) == before


async def test_the_description_tells_that_nothing_else_is_taken(api):
    described = (await api.ask("GET", "http://service.test/openapi.json"))["components"]["schemas"]
    for name in (
        "UpdateItem",
        "UpdateUser",
        "UpdateWebLink",
        "UpdateLegalHoldPolicy",
        "UpdateRetentionPolicy",
    ):
        assert described[name]["additionalProperties"] is False
