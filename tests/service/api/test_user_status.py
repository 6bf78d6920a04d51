"""What a user's status forbids, on every operation that changes content."""

import pytest

from cmsfs.service.api.operations import Operation
from cmsfs.service.server import app
from tests.service.conftest import CONTENT, UPLOADS
from tests.support.sharing import share

pytestmark = pytest.mark.usefixtures("small")

# By what somebody has to be able to do: an operation and its body.  `{...}` are the items of `things`.
EDITS = {
    "POST /files/{id}/upload_sessions": ("/files/{file}/upload_sessions", {"file_size": len(CONTENT)}),
    "OPTIONS /files/{id}/content": ("/files/{file}/content", {"size": 1}),
    "PUT /files/{id}": ("/files/{file}", {"name": "other.txt"}),
    "PUT /folders/{id}": ("/folders/{folder}", {"description": "other"}),
    "PUT /web_links/{id}": ("/web_links/{link}", {"url": "https://other.example/"}),
    "PUT /files/{id}/watermark": ("/files/{file}/watermark", {"watermark": {"imprint": "default"}}),
    "DELETE /files/{id}/watermark": ("/files/{file}/watermark", None),
    "PUT /folders/{id}/watermark": ("/folders/{folder}/watermark", {"watermark": {"imprint": "default"}}),
    "DELETE /folders/{id}/watermark": ("/folders/{folder}/watermark", None),
    "POST /files/{id}/metadata/{scope}/{key}": ("/files/{bare}/metadata/global/properties", {"a": "b"}),
    "PUT /files/{id}/metadata/{scope}/{key}": (
        "/files/{file}/metadata/global/properties",
        [{"op": "add", "path": "/c", "value": "d"}],
    ),
    "DELETE /files/{id}/metadata/{scope}/{key}": ("/files/{file}/metadata/global/properties", None),
    "POST /folders/{id}/metadata/{scope}/{key}": ("/folders/{inner}/metadata/global/properties", {"a": "b"}),
    "PUT /folders/{id}/metadata/{scope}/{key}": (
        "/folders/{folder}/metadata/global/properties",
        [{"op": "add", "path": "/c", "value": "d"}],
    ),
    "DELETE /folders/{id}/metadata/{scope}/{key}": ("/folders/{folder}/metadata/global/properties", None),
    "POST /files/{id}/versions/current": (
        "/files/{file}/versions/current",
        {"type": "file_version", "id": "{old}"},
    ),
    "DELETE /files/{id}/versions/{version}": ("/files/{file}/versions/{old}", None),
    "PUT /files/{id}/versions/{version}": ("/files/{file}/versions/{old}", {"trashed_at": None}),
    "POST /files/{id}": ("/files/{trashed_file}", {}),
    "POST /folders/{id}": ("/folders/{trashed_folder}", {}),
    "POST /web_links/{id}": ("/web_links/{trashed_link}", {}),
    "DELETE /files/{id}/trash": ("/files/{gone_file}/trash", None),
    "DELETE /folders/{id}/trash": ("/folders/{gone_folder}/trash", None),
    "DELETE /web_links/{id}/trash": ("/web_links/{gone_link}/trash", None),
    "DELETE /folder_locks/{id}": ("/folder_locks/{locked}", None),
    "POST /folder_locks": (
        "/folder_locks",
        {
            "folder": {"type": "folder", "id": "{folder}"},
            "locked_operations": {"move": True, "delete": True},
        },
    ),
    "POST /metadata_cascade_policies": (
        "/metadata_cascade_policies",
        {"folder_id": "{described}", "scope": "global", "templateKey": "properties"},
    ),
    "POST /metadata_cascade_policies/{id}/apply": (
        "/metadata_cascade_policies/{policy}/apply",
        {"conflict_resolution": "none"},
    ),
    "DELETE /metadata_cascade_policies/{id}": ("/metadata_cascade_policies/{policy}", None),
    "DELETE /files/{id}": ("/files/{bare}", None),
    "DELETE /folders/{id}": ("/folders/{inner}?recursive=true", None),
    "DELETE /web_links/{id}": ("/web_links/{link}", None),
}
UPLOAD = {
    "OPTIONS /files/content": ("/files/content", {"name": "n", "parent": {"id": "{folder}"}}),
    "OPTIONS /files/content/": ("/files/content/", {"name": "n", "parent": {"id": "0"}}),
    "POST /files/upload_sessions": (
        "/files/upload_sessions",
        {"folder_id": "{folder}", "file_size": len(CONTENT), "file_name": "big2"},
    ),
    "POST /folders": ("/folders", {"name": "made", "parent": {"id": "0"}}),
    "POST /web_links": (
        "/web_links",
        {"name": "made2", "parent": {"id": "{folder}"}, "url": "https://a.example"},
    ),
    "POST /files/{id}/copy": ("/files/{file}/copy", {"name": "copied", "parent": {"id": "{folder}"}}),
    "POST /folders/{id}/copy": ("/folders/{folder}/copy", {"name": "copied", "parent": {"id": "0"}}),
}
FREE = {
    "POST /comments": ("/comments", {"message": "a", "item": {"type": "file", "id": "{file}"}}),
    "PUT /comments/{id}": ("/comments/{comment}", {"message": "b"}),
    "DELETE /comments/{id}": ("/comments/{comment}", None),
    "POST /collaborations": (
        "/collaborations",
        {
            "item": {"type": "folder", "id": "{folder}"},
            "accessible_by": {"type": "user", "login": "new@example.com"},
            "role": "viewer",
        },
    ),
    "PUT /collaborations/{id}": ("/collaborations/{collaboration}", {"role": "viewer"}),
    "DELETE /collaborations/{id}": ("/collaborations/{collaboration}", None),
    "POST /zip_downloads": ("/zip_downloads", {"items": [{"type": "file", "id": "{file}"}]}),
    "OPTIONS /events": ("/events", None),
    "POST /tasks": ("/tasks", {"item": {"type": "file", "id": "{file}"}}),
    "PUT /tasks/{id}": ("/tasks/{task}", {"message": "b"}),
    "POST /task_assignments": (
        "/task_assignments",
        {"task": {"type": "task", "id": "{task}"}, "assign_to": {"login": "uwe@example.com"}},
    ),
    "PUT /task_assignments/{id}": ("/task_assignments/{assignment}", {"message": "b"}),
    "DELETE /task_assignments/{id}": ("/task_assignments/{assignment}", None),
    "DELETE /tasks/{id}": ("/tasks/{task}", None),
    "POST /metadata_queries/execute_read": (
        "/metadata_queries/execute_read",
        {"from": "global.properties", "ancestor_folder_id": "0"},
    ),
}
# These are below, with bodies of their own.
SENT = {
    "POST /files/content",
    "POST /files/{id}/content",
    "PUT /files/upload_sessions/{id}",
    "POST /files/upload_sessions/{id}/commit",
    "POST /files/upload_sessions/{id}/plan",
    "POST /files/upload_sessions/{id}/log",
    "DELETE /files/upload_sessions/{id}",
}
# Not about content.
ADMINISTRATION = (
    *("/users", "/legal_hold_", "/retention_", "/metadata_templates", "/collaboration_whitelist_"),
    *("/group", "/webhooks", "/invites", "/terms_of_service", "/storage_polic", "/device_pinners"),
)


def test_every_operation_that_changes_content_is_here():
    known = EDITS.keys() | UPLOAD.keys() | FREE.keys() | SENT
    for one in app.API:
        if isinstance(one, Operation) and one.method != "GET" and not one.path.startswith(ADMINISTRATION):
            assert one.line in known, one.line


@pytest.fixture
async def things(api, uwe):
    """The ids of what a user owned before, also in a folder of somebody else's."""

    async def make(parent):
        found = {"folder": (await uwe.folder("folder", parent))["id"]}
        found["inner"] = (await uwe.folder("inner", found["folder"]))["id"]
        file = await uwe.upload("file.txt", b"1", found["folder"])
        found |= {"file": file["id"], "old": file["file_version"]["id"]}
        await uwe.version(file["id"], b"2")
        found["bare"] = (await uwe.upload("bare.txt", b"1", parent))["id"]
        found["link"] = (await uwe.link("link", parent))["id"]
        for path in (f"/files/{found['file']}", f"/folders/{found['folder']}"):
            await uwe.ask("POST", f"{path}/metadata/global/properties", json={"x": "y"}, expect=201)
        for state in ("trashed", "gone"):
            found[f"{state}_file"] = (await uwe.upload(f"{state}.txt", b"1", parent))["id"]
            found[f"{state}_folder"] = (await uwe.folder(f"{state} folder", parent))["id"]
            found[f"{state}_link"] = (await uwe.link(f"{state} link", parent))["id"]
            for kind in ("file", "folder", "link"):
                path = "web_links" if kind == "link" else f"{kind}s"
                await uwe.ask("DELETE", f"/{path}/{found[f'{state}_{kind}']}", expect=204)
        item = {"type": "file", "id": found["file"]}
        comment = await uwe.ask("POST", "/comments", json={"message": "m", "item": item}, expect=201)
        owned = {"type": "folder", "id": found["inner"]}
        wish = {"folder": owned, "locked_operations": {"move": True, "delete": True}}
        found["locked"] = (await uwe.ask("POST", "/folder_locks", json=wish))["id"]
        task = await uwe.ask("POST", "/tasks", json={"item": item}, expect=201)
        second = await uwe.ask("POST", "/tasks", json={"item": item}, expect=201)
        to_self = {"task": {"id": second["id"]}, "assign_to": {"id": str(uwe.user)}}
        assigned = await uwe.ask("POST", "/task_assignments", json=to_self, expect=201)
        found |= {"task": task["id"], "assignment": assigned["id"]}
        for name in ("described", "policed"):
            found[name] = (await uwe.folder(name, parent))["id"]
            path = f"/folders/{found[name]}/metadata/global/properties"
            await uwe.ask("POST", path, json={"x": "y"}, expect=201)
        cascade = {"folder_id": found["policed"], "scope": "global", "templateKey": "properties"}
        made = await uwe.ask("POST", "/metadata_cascade_policies", json=cascade, expect=201)
        found["policy"] = made["id"]
        given = await share(uwe, owned, "guest@example.com", "editor")
        return found | {"comment": comment["id"], "collaboration": given["id"]}

    return make


async def _set(api, user, status):
    await api.ask("PUT", f"/users/{user}", json={"status": status})


def _filled(value, things):
    if isinstance(value, str):
        return value.format(**things)
    if isinstance(value, dict):
        return {name: _filled(one, things) for name, one in value.items()}
    return [_filled(one, things) for one in value] if isinstance(value, list) else value


async def _refused(uwe, things, operations):
    """Those of the operations that are refused; the others are done."""
    found = set()
    for line, (path, body) in operations.items():
        options = {} if body is None else {"json": _filled(body, things)}
        if isinstance(body, list):
            options["headers"] = {"content-type": "application/json-patch+json"}
        answer = await uwe.http.request(line.split()[0], _filled(path, things), **options)
        # What lies in the trash of somebody else is not in the own any more.
        refused = (403, 404) if "_" in path.partition("{")[2] else (403,)
        assert answer.status_code in refused or answer.is_success, (line, answer.text)
        if not answer.is_success:
            assert answer.json()["code"] in ("access_denied_insufficient_permissions", "not_found"), line
            found.add(line)
    return found


@pytest.mark.parametrize("place", ["own", "shared"])
@pytest.mark.parametrize(
    ("status", "edits", "uploads"),
    [
        ("active", True, True),
        ("cannot_delete_edit", False, True),
        ("cannot_delete_edit_upload", False, False),
    ],
)
async def test_user_status_applies_to_every_operation(api, uwe, things, status, edits, uploads, place):
    parent = "0"
    if place == "shared":
        folder = await api.folder("ours")
        await share(api, folder, uwe, "co-owner")
        parent = folder["id"]
    ids = await things(parent)
    await _set(api, uwe.user, status)
    assert await _refused(uwe, ids, FREE) == set()
    assert await _refused(uwe, ids, UPLOAD) == (set() if uploads else set(UPLOAD))
    assert await _refused(uwe, ids, EDITS) == (set() if edits else set(EDITS))


async def _judged(uwe, path, attributes):
    body, headers = uwe.form(attributes, b"bytes")
    return (await uwe.http.post(f"{UPLOADS}{path}", content=body, headers=headers)).status_code


async def test_uploads_under_a_status(api, uwe):
    file = await uwe.upload("a.txt", b"1")
    begun = await uwe.begin()
    parts = await uwe.put_all(begun)
    new = {"name": "b.txt", "parent": {"id": "0"}}
    await _set(api, uwe.user, "cannot_delete_edit")
    assert await _judged(uwe, f"/files/{file['id']}/content", {"name": "a.txt"}) == 403
    assert await _judged(uwe, "/files/content", new) == 201
    await _set(api, uwe.user, "cannot_delete_edit_upload")
    assert await _judged(uwe, f"/files/{file['id']}/content", {"name": "a.txt"}) == 403
    assert await _judged(uwe, "/files/content", new | {"name": "c.txt"}) == 403
    # What was begun before is not finished either; taking it back is no deletion.
    await uwe.commit(begun, parts, expect=403)
    await uwe.ask("DELETE", f"/files/upload_sessions/{begun['id']}", expect=204)
    assert await uwe.bytes(file["id"]) == b"1"


async def test_permissions_tell_what_a_status_forbids(api, uwe):
    file = await uwe.upload("a.txt", b"1")
    await _set(api, uwe.user, "cannot_delete_edit_upload")
    told = (await uwe.ask("GET", f"/files/{file['id']}?fields=permissions"))["permissions"]
    assert not any(told[name] for name in ("can_delete", "can_rename", "can_upload", "can_apply_watermark"))
    assert all(told[name] for name in ("can_download", "can_preview", "can_share", "can_comment"))
    told = (await uwe.ask("GET", "/folders/0?fields=permissions"))["permissions"]
    assert not told["can_upload"]


async def test_as_user_checks_both_statuses(api, uwe, people):
    other = await people.add("co@example.com")
    await api.ask("PUT", f"/users/{other.user}", json={"role": "coadmin"})
    file = await uwe.upload("a.txt", b"1")
    headers = {"as-user": str(uwe.user)}
    await _set(api, other.user, "cannot_delete_edit")
    await other.ask("DELETE", f"/files/{file['id']}", headers=headers, expect=403)
    await _set(api, other.user, "active")
    await _set(api, uwe.user, "cannot_delete_edit")
    await other.ask("DELETE", f"/files/{file['id']}", headers=headers, expect=403)
    await _set(api, uwe.user, "active")
    await other.ask("DELETE", f"/files/{file['id']}", headers=headers, expect=204)


async def test_edit_link_does_not_exceed_role(api, uwe):
    file = await api.upload("a.txt", b"1")
    link = {"shared_link": {"access": "open", "permissions": {"can_edit": True}}}
    url = (await api.ask("PUT", f"/files/{file['id']}?fields=shared_link", json=link))["shared_link"]["url"]
    by = {"boxapi": f"shared_link={url}"}
    await uwe.send(f"/files/{file['id']}/content", {}, b"2", expect=200, **by)
    await _set(api, uwe.user, "cannot_delete_edit")
    await uwe.send(f"/files/{file['id']}/content", {}, b"3", expect=403, **by)
