"""Comments on files."""

from typing import Any

import pytest


@pytest.fixture
async def file(api):
    return await api.upload("a.txt", b"x")


async def say(api, file, message="a heron", expect=201, **more):
    body = {"message": message, "item": {"type": "file", "id": file["id"]}} | more
    return await api.ask("POST", "/comments", json=body, expect=expect)


async def test_comment_life_cycle(api, file):
    made = await say(api, file, tagged_message="see, @[2001:Ann Admin], a heron")
    assert (made["type"], made["is_reply_comment"]) == ("comment", False)
    assert made["message"] == "see, @Ann Admin, a heron"
    assert made["tagged_message"] == "see, @[2001:Ann Admin], a heron"
    assert made["created_by"]["login"] == "ann@example.com"
    assert made["item"] == {"type": "file", "id": file["id"]}
    assert await api.ask("GET", f"/comments/{made['id']}") == made
    assert await api.names("heron", content_types="comments") == {"a.txt"}
    assert await api.names("heron", content_types="name,description,file_content,tags") == set()
    changed = await api.ask("PUT", f"/comments/{made['id']}", json={"message": "an egret"})
    assert (changed["message"], changed["created_at"]) == ("an egret", made["created_at"])
    assert changed["modified_at"] > made["modified_at"]
    assert await api.names("heron", content_types="comments") == set()
    assert await api.names("egret", content_types="comments") == {"a.txt"}
    await api.ask("DELETE", f"/comments/{made['id']}", expect=204)
    assert await api.names("egret", content_types="comments") == set()
    await api.ask("GET", f"/comments/{made['id']}", expect=404)


async def test_comments_and_replies_are_counted(api, file):
    first = await say(api, file)
    reply = await say(api, file, "indeed", item={"type": "comment", "id": first["id"]})
    assert (reply["is_reply_comment"], reply["item"]) == (True, {"type": "comment", "id": first["id"]})
    await say(api, file, "else")
    listed = await api.ask("GET", f"/files/{file['id']}/comments?limit=2&offset=1")
    assert (listed["total_count"], listed["limit"], listed["offset"]) == (3, 2, 1)
    assert [one["message"] for one in listed["entries"]] == ["indeed", "else"]
    path = f"/files/{file['id']}?fields=comment_count"
    assert (await api.ask("GET", path))["comment_count"] == 3
    await api.ask("DELETE", f"/comments/{first['id']}", expect=204)
    assert (await api.ask("GET", path))["comment_count"] == 1


async def test_only_author_changes_comment(api, uwe, file):
    made = await say(api, file)
    path = f"/comments/{made['id']}"
    for method, given in (("GET", None), ("PUT", {"message": "x"}), ("DELETE", None)):
        await uwe.ask(method, path, json=given, expect=404)
    await say(uwe, file, expect=404)
    await uwe.ask("GET", f"/files/{file['id']}/comments", expect=404)
    shared = await api.ask("PUT", f"/files/{file['id']}", json={"shared_link": {"access": "open"}})
    header = {"boxapi": f"shared_link={shared['shared_link']['url']}"}
    body: dict[str, Any] = {"message": "by link", "item": {"type": "file", "id": file["id"]}}
    # Who came by a link reads; who was invited takes part.
    assert (await uwe.ask("GET", path, headers=header)) == made
    await uwe.ask("POST", "/comments", json=body, headers=header, expect=403)
    invited = {
        "item": {"type": "file", "id": file["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": "viewer",
    }
    await api.ask("POST", "/collaborations", json=invited, expect=201)
    theirs = await uwe.ask("POST", "/comments", json=body, expect=201)
    await uwe.ask("PUT", path, json={"message": "x"}, expect=403)
    await uwe.ask("DELETE", path, expect=403)
    await api.ask("PUT", f"/comments/{theirs['id']}", json={"message": "x"}, expect=403)
    # The file is the administrator's, and so is what is said of it.
    await api.ask("DELETE", f"/comments/{theirs['id']}", expect=204)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": "x"},
        {"message": "", "item": {"type": "file", "id": "ID"}},
        {"message": "  ", "item": {"type": "file", "id": "ID"}},
        {"item": {"type": "file", "id": "ID"}},
        {"message": "x" * 10_001, "item": {"type": "file", "id": "ID"}},
        {"message": "x", "item": {"type": "folder", "id": "ID"}},
    ],
)
async def test_what_is_no_comment(api, file, body):
    if "item" in body:
        body["item"]["id"] = body["item"]["id"].replace("ID", file["id"])
    assert (await api.ask("POST", "/comments", json=body, expect=400))["code"] == "bad_request"


async def test_comments_go_with_the_file_and_are_events(api, file):
    made = await say(api, file)
    await api.ask("DELETE", f"/comments/{made['id']}", expect=204)
    await say(api, file)
    kinds = [one["event_type"] for one in (await api.ask("GET", "/events"))["entries"]]
    assert kinds[-3:] == ["COMMENT_CREATE", "COMMENT_DELETE", "COMMENT_CREATE"]
    changes = (await api.ask("GET", "/events?stream_type=changes"))["entries"]
    assert not any(one["event_type"].startswith("COMMENT") for one in changes)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    assert api.store.read("SELECT * FROM comment") == []
