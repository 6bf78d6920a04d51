"""Terms of service, and who has agreed to them."""

import pytest

PATH = "/terms_of_services"
STATUSES = "/terms_of_service_user_statuses"


@pytest.fixture
async def terms(api):
    wish = {"status": "enabled", "text": "Be kind.", "tos_type": "managed"}
    return await api.ask("POST", PATH, json=wish, expect=201)


def says(terms, user, is_accepted=True):
    tos = {"type": "terms_of_service", "id": terms["id"]}
    return {"tos": tos, "user": {"type": "user", "id": str(user.user)}, "is_accepted": is_accepted}


async def test_terms_are_made_read_and_changed(api, uwe, terms):
    assert (terms["text"], terms["status"], terms["tos_type"]) == ("Be kind.", "enabled", "managed")
    assert await uwe.ask("GET", f"{PATH}/{terms['id']}") == terms
    other = await api.ask(
        "POST", PATH, json={"status": "disabled", "text": "x", "tos_type": "external"}, expect=201
    )
    assert (await uwe.ask("GET", PATH))["entries"] == [terms, other]
    assert (await uwe.ask("GET", f"{PATH}?tos_type=external"))["entries"] == [other]
    changed = await api.ask("PUT", f"{PATH}/{terms['id']}", json={"status": "disabled", "text": "Be nice."})
    assert (changed["status"], changed["text"]) == ("disabled", "Be nice.")
    await api.ask("POST", PATH, json={"status": "enabled", "text": "again"}, expect=409)
    await uwe.ask("POST", PATH, json={"status": "enabled", "text": "mine"}, expect=403)
    await uwe.ask("PUT", f"{PATH}/{terms['id']}", json={"text": "mine"}, expect=403)
    await api.ask("GET", f"{PATH}/77", expect=404)
    await api.ask("GET", f"{PATH}?tos_type=all", expect=400)
    await api.ask("POST", PATH, json={"status": "on", "text": "x"}, expect=400)


async def test_users_agree_for_themselves(api, uwe, people, terms):
    zoe = await people.add("zoe@example.com")
    listed = f"{STATUSES}?tos_id={terms['id']}"
    assert (await uwe.ask("GET", listed))["entries"] == []
    made = await uwe.ask("POST", STATUSES, json=says(terms, uwe), expect=201)
    assert (made["is_accepted"], made["user"]["id"]) == (True, str(uwe.user))
    assert await uwe.ask("GET", listed) == {"total_count": 1, "entries": [made]}
    assert (await api.ask("GET", f"{listed}&user_id={uwe.user}"))["entries"] == [made]
    path = f"{STATUSES}/{made['id']}"
    assert (await uwe.ask("PUT", path, json={"is_accepted": False}))["is_accepted"] is False
    await uwe.ask("POST", STATUSES, json=says(terms, uwe), expect=409)
    await uwe.ask("POST", STATUSES, json=says(terms, zoe), expect=403)
    await zoe.ask("PUT", path, json={"is_accepted": True}, expect=404)
    await zoe.ask("GET", f"{listed}&user_id={uwe.user}", expect=403)
    await uwe.ask("GET", STATUSES, expect=400)
    await uwe.ask("GET", f"{STATUSES}?tos_id=77", expect=404)
    await api.ask("POST", STATUSES, json=says(terms, zoe, False), expect=201)
    words = ["TERMS_OF_SERVICE_ACCEPT", "TERMS_OF_SERVICE_REJECT", "TERMS_OF_SERVICE_REJECT"]
    asked = f"/events?stream_type=admin_logs&event_type={','.join(set(words))}"
    assert [one["event_type"] for one in (await api.ask("GET", asked))["entries"]] == words


async def test_other_enterprises_have_their_own(people, terms):
    eve = await people.add("eve@elsewhere.example")
    await eve.ask("GET", f"{PATH}/{terms['id']}", expect=404)
    assert (await eve.ask("GET", PATH))["total_count"] == 0
    await eve.ask("POST", STATUSES, json=says(terms, eve), expect=404)


async def test_who_has_not_agreed_is_kept_from_items(api, uwe, terms):
    file = await api.upload("a.txt", b"x")
    refused = await uwe.ask("GET", "/folders/0/items", expect=400)
    assert refused["code"] == "terms_of_service_required"
    assert refused["context_info"] == {"tos_id": int(terms["id"]), "tos_user_status_id": None}
    for line in ("GET /search?query=x", "POST /folders", "GET /events", "OPTIONS /files/content"):
        method, path = line.split()
        assert (await uwe.ask(method, path, expect=400))["code"] == refused["code"]
    # Who they are, the terms, and what is theirs to say stay open; the administrator is not asked.
    await uwe.ask("GET", "/users/me")
    await uwe.ask("GET", f"{PATH}/{refused['context_info']['tos_id']}")
    await api.ask("GET", f"/files/{file['id']}")
    said = await uwe.ask("POST", STATUSES, json=says(terms, uwe, False), expect=201)
    refused = await uwe.ask("GET", "/folders/0/items", expect=400)
    assert refused["context_info"]["tos_user_status_id"] == int(said["id"])
    await uwe.ask("PUT", f"{STATUSES}/{said['id']}", json={"is_accepted": True})
    await uwe.ask("GET", "/folders/0/items")
    await uwe.ask("PUT", f"{STATUSES}/{said['id']}", json={"is_accepted": False})
    await uwe.ask("GET", "/folders/0/items", expect=400)
    await api.ask("PUT", f"{PATH}/{terms['id']}", json={"status": "disabled"})
    await uwe.ask("GET", "/folders/0/items")


async def test_users_of_applications_are_not_asked(api, terms):
    wish = {"name": "Robot", "is_platform_access_only": True}
    robot = await api.ask("POST", "/users", json=wish, expect=201)
    await api.ask("GET", "/folders/0/items", headers={"as-user": robot["id"]})
