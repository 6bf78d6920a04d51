"""Watermarks of files and folders."""

import pytest

BODY = {"watermark": {"imprint": "default"}}


async def info(api, kind, item):
    return (await api.ask("GET", f"/{kind}s/{item['id']}?fields=watermark_info"))["watermark_info"]


def marked(*, inherited=False):
    return {
        "is_watermarked": True,
        "is_watermark_inherited": inherited,
        "is_watermarked_by_access_policy": False,
    }


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_a_watermark_is_set_told_and_taken_away(api, kind):
    item = await api.upload("a") if kind == "file" else await api.folder("a")
    url = f"/{kind}s/{item['id']}/watermark"
    await api.ask("GET", url, expect=404)
    await api.ask("DELETE", url, expect=404)
    assert not any((await info(api, kind, item)).values())
    made = (await api.ask("PUT", url, json=BODY, expect=201))["watermark"]
    assert made["created_at"] == made["modified_at"]
    again = (await api.ask("PUT", url, json=BODY))["watermark"]
    assert again["created_at"] == made["created_at"] < again["modified_at"]
    assert (await api.ask("GET", url))["watermark"] == again
    assert await info(api, kind, item) == marked()
    await api.ask("DELETE", url, expect=204)
    assert not any((await info(api, kind, item)).values())


async def test_what_is_below_a_folder_has_its_watermark(api):
    top = await api.folder("top")
    middle = await api.folder("middle", top["id"])
    file = await api.upload("a", b"", middle["id"])
    await api.ask("PUT", f"/folders/{top['id']}/watermark", json=BODY, expect=201)
    assert await info(api, "folder", top) == marked()
    assert await info(api, "folder", middle) == await info(api, "file", file) == marked(inherited=True)
    # It is the folder's, not the file's; and moved out of it the file has none.
    await api.ask("GET", f"/files/{file['id']}/watermark", expect=404)
    await api.ask("PUT", f"/files/{file['id']}", json={"parent": {"id": "0"}})
    assert not any((await info(api, "file", file)).values())


async def test_who_may_not(api, uwe):
    item = await api.upload("a")
    url = f"/files/{item['id']}/watermark"
    await api.ask("PUT", url, json={}, expect=400)
    await api.ask("PUT", url, json={"watermark": {"imprint": "gold"}}, expect=400)
    await api.ask("PUT", "/folders/0/watermark", json=BODY, expect=403)
    for method in ("GET", "PUT", "DELETE"):
        await uwe.ask(method, url, json=BODY, expect=404)
    link = (await api.ask("PUT", f"/files/{item['id']}", json={"shared_link": {}}))["shared_link"]
    header = {"boxapi": f"shared_link={link['url']}"}
    await uwe.ask("PUT", url, json=BODY, headers=header, expect=403)


@pytest.mark.parametrize(("role", "status"), [("editor", 403), ("co-owner", 201)])
async def test_who_manages_a_folder_sets_its_watermark(api, uwe, role, status):
    folder = await api.folder("docs")
    invited = {
        "item": {"type": "folder", "id": folder["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": role,
    }
    await api.ask("POST", "/collaborations", json=invited, expect=201)
    await uwe.ask("PUT", f"/folders/{folder['id']}/watermark", json=BODY, expect=status)
    may = (await uwe.ask("GET", f"/folders/{folder['id']}?fields=permissions"))["permissions"]
    assert may["can_apply_watermark"] is (status == 201)
