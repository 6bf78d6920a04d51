"""Tasks on files and their assignments: who sets, sees and resolves them, and when they are completed."""

import pytest

from tests.support import sharing


@pytest.fixture
async def file(api, uwe):
    """A file of Ann's that Uwe may look into."""
    folder = await api.folder("shared")
    await sharing.share(api, folder, uwe, "viewer")
    return await api.upload("plan.txt", b"plan", folder["id"])


async def task_on(who, file, expect=201, **fields):
    body = {"item": {"type": "file", "id": file["id"]}} | fields
    return await who.ask("POST", "/tasks", json=body, expect=expect)


async def assign(who, task, user, expect=201):
    body = {"task": {"type": "task", "id": task["id"]}, "assign_to": user}
    return await who.ask("POST", "/task_assignments", json=body, expect=expect)


async def resolve(who, assignment, state, expect=200):
    path = f"/task_assignments/{assignment['id']}"
    return await who.ask("PUT", path, json={"resolution_state": state}, expect=expect)


async def test_a_task_is_set_found_changed_and_deleted(api, uwe, file):
    made = await task_on(api, file, message="Look", due_at="2030-01-02T03:04:05Z")
    assert (made["action"], made["completion_rule"]) == ("review", "all_assignees")
    assert (made["type"], made["is_completed"], made["item"]["id"]) == ("task", False, file["id"])
    assert made["due_at"] == "2030-01-02T03:04:05+00:00"
    assert made["task_assignment_collection"] == {"total_count": 0, "entries": []}
    path = f"/tasks/{made['id']}"
    for who in (api, uwe):
        assert await who.ask("GET", path) == made
        listed = await who.ask("GET", f"/files/{file['id']}/tasks")
        assert listed == {"total_count": 1, "entries": [made]}
    await uwe.ask("PUT", path, json={"message": "No"}, expect=403)
    again = await api.ask("PUT", path, json={"message": "Look well", "due_at": None, "action": "complete"})
    assert (again["message"], again["due_at"], again["action"]) == ("Look well", None, "complete")
    await api.ask("PUT", path, json={"item": {"id": file["id"]}}, expect=400)
    await uwe.ask("DELETE", path, expect=403)
    await api.ask("DELETE", path, expect=204)
    await api.ask("GET", path, expect=404)


@pytest.mark.parametrize(
    ("action", "good", "bad"), [("review", "approved", "completed"), ("complete", "completed", "rejected")]
)
async def test_who_is_assigned_resolves_it(api, uwe, file, action, good, bad):
    task = await task_on(api, file, action=action, message="Look")
    made = await assign(api, task, {"login": "UWE@example.com"})
    assert (made["resolution_state"], made["message"]) == ("incomplete", "Look")
    assert (made["assigned_to"]["id"], made["completed_at"]) == (str(uwe.user), None)
    assert (await assign(api, task, {"id": str(uwe.user)}, expect=409))["code"] == "conflict"
    await resolve(api, made, good, expect=403)
    await resolve(uwe, made, bad, expect=400)
    done = await resolve(uwe, made, good)
    assert done["resolution_state"] == good
    assert done["completed_at"] is not None
    assert await api.ask("GET", f"/task_assignments/{made['id']}") == done
    assert await api.ask("GET", f"/tasks/{task['id']}/assignments") == {"total_count": 1, "entries": [done]}
    assert (await api.ask("GET", f"/tasks/{task['id']}"))["is_completed"]
    await api.ask("DELETE", f"/task_assignments/{made['id']}", expect=403)
    assert (await resolve(uwe, made, "incomplete"))["completed_at"] is None
    await api.ask("DELETE", f"/task_assignments/{made['id']}", expect=204)
    await api.ask("GET", f"/task_assignments/{made['id']}", expect=404)


async def test_one_or_all_complete_it(api, uwe, file):
    for rule, after_one in (("any_assignee", True), ("all_assignees", False)):
        task = await task_on(api, file, completion_rule=rule)
        theirs = await assign(api, task, {"id": str(uwe.user)})
        own = await assign(api, task, {"id": str(api.user)})
        await resolve(uwe, theirs, "approved")
        assert (await api.ask("GET", f"/tasks/{task['id']}"))["is_completed"] is after_one
        await resolve(api, own, "rejected")
        assert (await api.ask("GET", f"/tasks/{task['id']}"))["is_completed"] is after_one
        await resolve(api, own, "approved")
        assert (await api.ask("GET", f"/tasks/{task['id']}"))["is_completed"]


async def test_only_who_sees_the_file_has_to_do_with_it(api, people, file):
    eve = await people.add("eve@example.com")
    await task_on(eve, file, expect=404)
    task = await task_on(api, file)
    await eve.ask("GET", f"/tasks/{task['id']}", expect=404)
    await assign(api, task, {"id": str(eve.user)}, expect=403)
    await assign(api, task, {"login": "nobody@example.com"}, expect=404)
    await assign(api, task, {}, expect=400)


async def test_uploaders_set_no_tasks(api, people):
    eve = await people.add("eve@example.com")
    folder = await api.folder("shared")
    file = await api.upload("plan.txt", b"plan", folder["id"])
    await sharing.share(api, folder, eve, "uploader")
    await task_on(eve, file, expect=403)


async def test_the_item_of_a_hidden_file_is_null(api, uwe, file):
    task = await task_on(api, file)
    made = await assign(api, task, {"id": str(uwe.user)})
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    for who in (api, uwe):
        assert (await who.ask("GET", f"/tasks/{task['id']}"))["item"] is None
        assert (await who.ask("GET", f"/task_assignments/{made['id']}"))["item"] is None
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    await uwe.ask("GET", f"/task_assignments/{made['id']}", expect=404)


async def test_tasks_are_told_to_who_sees_the_file(api, uwe, file):
    since = await sharing.position(uwe)
    task = await task_on(api, file)
    made = await assign(api, task, {"id": str(uwe.user)})
    await resolve(uwe, made, "approved")
    await api.ask("PUT", f"/tasks/{task['id']}", json={"message": "Thanks"})
    told = await sharing.told(uwe, since)
    assert [(word, source["id"]) for word, source in told] == [
        ("TASK_CREATE", file["id"]),
        ("TASK_ASSIGNMENT_CREATE", file["id"]),
        ("TASK_ASSIGNMENT_UPDATE", file["id"]),
        ("TASK_UPDATE", file["id"]),
    ]
    assert await sharing.told(uwe, since, stream_type="changes") == []
