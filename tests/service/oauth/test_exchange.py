"""Narrowing a token: what is asked for, what comes back, and that nothing is ever widened."""

import json

import pytest

from cmsfs.models.enterprise import tokens

EXCHANGE = {"grant_type": tokens.TOKEN_EXCHANGE, "subject_token_type": tokens.ACCESS_TOKEN_TYPE}


@pytest.fixture
def form(api):
    """A form without the application's credentials: the subject token says who asks."""
    return EXCHANGE | {
        "subject_token": api.http.headers["authorization"].removeprefix("Bearer "),
        "scope": "item_upload item_preview base_explorer",
    }


async def post(api, form, status=200):
    answer = await api.http.post("http://service.test/oauth2/token", data=form)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_response_names_the_restriction(api, form):
    folder = await api.folder("folder")
    made = await post(api, form | {"resource": f"https://api.box.com/2.0/folders/{folder['id']}"})
    assert made["issued_token_type"] == tokens.ACCESS_TOKEN_TYPE
    assert made["token_type"] == "bearer"
    assert 0 < made["expires_in"] <= 3600
    assert "refresh_token" not in made
    assert [one["scope"] for one in made["restricted_to"]] == ["item_upload", "item_preview", "base_explorer"]
    assert {one["object"]["id"] for one in made["restricted_to"]} == {folder["id"]}
    tokens.Token.model_validate(made)
    plain = await post(api, form)
    assert plain["restricted_to"][0] == {"scope": "item_upload"}


async def test_the_form_of_our_own_model_is_taken(api, form):
    grant = tokens.TokenExchange(subject_token=form["subject_token"], scope="item_preview")
    assert (await post(api, grant.form()))["access_token"]


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"scope": ""}, 400, "invalid_request"),
        ({"scope": " "}, 400, "invalid_scope"),
        ({"scope": "item_preview magic"}, 400, "invalid_scope"),
        ({"subject_token": ""}, 400, "invalid_request"),
        ({"subject_token": "nonsense"}, 400, "invalid_grant"),
        ({"subject_token": "a.b.c"}, 400, "invalid_grant"),
        ({"subject_token_type": "urn:x"}, 400, "invalid_request"),
        ({"resource": "https://api.box.com/2.0/files/999"}, 400, "invalid_resource"),
        ({"resource": "https://api.box.com/2.0/web_links/999"}, 400, "invalid_resource"),
        ({"resource": "https://api.box.com/2.0/files/999?x=1"}, 400, "invalid_resource"),
        ({"resource": "x"}, 400, "invalid_resource"),
        ({"resource": ""}, 400, "invalid_resource"),
        ({"box_shared_link": "https://app.box.com/s/abc"}, 400, "invalid_resource"),
        ({"resource": "x", "box_shared_link": "x"}, 400, "invalid_request"),
        ({"client_id": "tests", "client_secret": "wrong"}, 400, "invalid_client"),
        ({"actor_token": "a.b.c"}, 400, "invalid_request"),
        ({"actor_token": "a.b.c", "actor_token_type": tokens.ID_TOKEN_TYPE}, 400, "invalid_grant"),
    ],
)
async def test_refusals(api, form, change, status, error):
    assert (await post(api, form | change, status))["error"] == error


async def test_a_subject_without_a_scope_gets_401(api, form):
    narrow = (await post(api, form | {"scope": "item_download base_upload"}))["access_token"]
    for scope, status in {
        "item_download": 200,
        "item_upload": 200,
        "item_read": 200,
        "item_delete": 401,
        "item_download item_rename": 401,
        "root_readonly": 401,
        "base_explorer": 401,
    }.items():
        found = await post(api, form | {"subject_token": narrow, "scope": scope}, status)
        assert found.get("error") == (None if status == 200 else "invalid_scope")


async def test_a_bound_token_is_bound_for_ever(api, form):
    folder = await api.folder("folder")
    inside, beside = await api.upload("a", parent=folder["id"]), await api.upload("b")
    bound = await api.narrowed("item_download", resource=f"https://api.box.com/2.0/folders/{folder['id']}")
    again = form | {"subject_token": bound, "scope": "item_download"}

    def of(file):
        return {"resource": f"https://api.box.com/2.0/files/{file['id']}"}

    assert (await post(api, again | of(beside), 400))["error"] == "invalid_resource"
    assert (await post(api, again | {"resource": "https://api.box.com/2.0/folders/0"}, 400))[
        "error"
    ] == "invalid_resource"
    assert (await post(api, again | of(inside)))["restricted_to"][0]["object"]["id"] == inside["id"]
    unsaid = (await post(api, again))["access_token"]
    assert await api.status(unsaid, path=f"/files/{inside['id']}") == 200
    assert await api.status(unsaid, path=f"/files/{beside['id']}") == 404


async def test_somebody_elses_item_is_none(api, uwe, form):
    file = await uwe.upload("a")
    resource = f"https://api.box.com/2.0/files/{file['id']}"
    assert (await post(api, form | {"resource": resource}, 400))["error"] == "invalid_resource"


async def test_a_narrow_token_ends_with_the_wider_one(api, form, service):
    narrow = await api.narrowed("item_preview")
    narrower = (await post(api, form | {"subject_token": narrow, "scope": "item_read"}))["access_token"]
    other = await api.narrowed("item_preview")
    secret = {"client_id": "tests", "client_secret": "a secret of the tests"}
    await api.http.post("http://service.test/oauth2/revoke", data=secret | {"token": narrow})
    assert [await api.status(one) for one in (narrow, narrower, other)] == [401, 401, 200]
    await service.write(lambda conn: conn.execute("UPDATE token SET expires_at = created_at + 100000000"))
    assert (await post(api, form))["expires_in"] <= 100


async def test_an_expired_subject_is_refused(api, form, service):
    await service.write(lambda conn: conn.execute("UPDATE token SET expires_at = 5"))
    assert (await post(api, form, 400))["error"] == "invalid_grant"


async def test_the_subject_of_another_application_is_refused(api, form, service):
    await service.write(
        lambda conn: conn.execute(
            "INSERT INTO app SELECT 'other', secret_hash, name, enterprise, service_user, scopes, grants,"
            " redirect_uris FROM app"
        )
    )
    secret = {"client_id": "other", "client_secret": "a secret of the tests"}
    assert (await post(api, form | secret, 400))["error"] == "invalid_client"


async def test_nobody_learns_the_tokens_from_the_database(api, form, service):
    made = await post(api, form)
    rows = service.read("SELECT * FROM token")
    assert made["access_token"] not in json.dumps([list(map(str, row)) for row in rows])


async def linked(api, item, **terms):
    body = {"shared_link": terms}
    found = await api.ask("PUT", f"/{item['type']}s/{item['id']}?fields=shared_link", json=body)
    return found["shared_link"]["url"]


async def test_a_token_for_what_a_shared_link_shows(api, uwe):
    folder = await api.folder("folder")
    inside, beside = await api.upload("a", b"inside", folder["id"]), await api.upload("b")
    url = await linked(api, folder)
    token = await uwe.narrowed("base_explorer", "item_download", box_shared_link=url)
    assert await uwe.status(token, path=f"/files/{inside['id']}/content") == 200
    assert await uwe.status(token, path=f"/folders/{folder['id']}/items") == 200
    assert await uwe.status(token, path=f"/files/{beside['id']}") == 404
    # Narrowed once more it shows the same, without being told again by what.
    again = await narrowed_again(uwe, token, "item_download")
    assert await uwe.status(again, path=f"/files/{inside['id']}/content") == 200
    shown = await uwe.http.get(
        f"/files/{inside['id']}?fields=path_collection", headers={"authorization": f"Bearer {token}"}
    )
    assert [one["name"] for one in shown.json()["path_collection"]["entries"]] == ["folder"]
    # It ends with the link, whatever the token's age; so does what was made of it.
    await api.ask("PUT", f"/folders/{folder['id']}", json={"shared_link": None})
    for one in (token, again):
        assert await uwe.status(one, path=f"/files/{inside['id']}") == 404


async def narrowed_again(api, token, *scopes, **form):
    form |= EXCHANGE | {"subject_token": token, "scope": " ".join(scopes)}
    return (await api.oauth(form))["access_token"]


async def test_link_terms_apply_to_its_token(api, uwe, people):
    eva = await people.add("eva@elsewhere.example")
    file = await api.upload("a", b"x")
    url = await linked(api, file, permissions={"can_download": False})
    token = await uwe.narrowed("item_download", box_shared_link=url)
    assert await uwe.status(token, path=f"/files/{file['id']}") == 200
    assert await uwe.status(token, path=f"/files/{file['id']}/content") == 403
    form = EXCHANGE | {"scope": "item_download", "box_shared_link": url}

    async def of(who, expect):
        bearer = who.http.headers["authorization"].removeprefix("Bearer ")
        return await who.oauth(form | {"subject_token": bearer}, expect=expect)

    await of(eva, 200)
    await linked(api, file, access="company")
    assert (await of(eva, 400))["error"] == "invalid_resource"
    await of(uwe, 200)
    # There is no field for a password, so that a link with one is of use to the owner alone.
    await linked(api, file, password="p")
    assert (await of(uwe, 400))["error"] == "invalid_resource"
    await of(api, 200)
    await linked(api, file, password=None, access="collaborators")
    assert (await of(uwe, 400))["error"] == "invalid_resource"
    assert await uwe.status(token, path=f"/files/{file['id']}") == 404


async def test_what_no_link_leads_to(api, uwe):
    link = await linked(api, await api.link("l"))
    gone = await api.upload("gone")
    trashed = await linked(api, gone)
    await api.ask("DELETE", f"/files/{gone['id']}", expect=204)
    bearer = uwe.http.headers["authorization"].removeprefix("Bearer ")
    for url in (link, trashed, "http://service.test/s/", "http://[", "x" * 5000):
        form = EXCHANGE | {"subject_token": bearer, "scope": "item_read", "box_shared_link": url}
        assert await uwe.refused(form) == "invalid_resource"


async def test_bound_token_is_not_widened_by_a_link(api, uwe):
    file, other = await api.upload("a", b"x"), await uwe.upload("b", b"y")
    url = await linked(api, file)
    token = await uwe.narrowed("item_download", resource=f"http://service.test/2.0/files/{other['id']}")
    form = EXCHANGE | {"subject_token": token, "scope": "item_download", "box_shared_link": url}
    assert await uwe.refused(form) == "invalid_resource"
    assert (
        await uwe.status(token, path=f"/files/{file['id']}", headers={"boxapi": f"shared_link={url}"}) == 404
    )


async def test_bound_token_ends_with_collaboration(api, uwe):
    folder = await api.folder("folder")
    body = {
        "item": {"type": "folder", "id": folder["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": "viewer",
    }
    made = await api.ask("POST", "/collaborations", json=body, expect=201)
    token = await uwe.narrowed("base_explorer", resource=f"https://api.box.com/2.0/folders/{folder['id']}")
    assert await uwe.status(token, path=f"/folders/{folder['id']}/items") == 200
    await api.ask("DELETE", f"/collaborations/{made['id']}", expect=204)
    assert await uwe.status(token, path=f"/folders/{folder['id']}/items") == 404


async def test_repeated_downscoping_reports_its_binding(api, form):
    folder = await api.folder("folder")
    token = await api.narrowed("base_explorer", resource=f"http://service.test/2.0/folders/{folder['id']}")
    again = await post(api, form | {"subject_token": token, "scope": "item_read"})
    (told,) = again["restricted_to"]
    assert (told["scope"], told["object"]["id"]) == ("item_read", folder["id"])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("service.test", 200), ("service.test/api", 200), ("api.box.com", 200), ("evil.example", 400)),
        *(("service.test.evil.example", 400), ("service.test@evil.example", 400), ("service.test:81", 400)),
    ],
)
async def test_a_resource_is_on_this_service(api, form, host, status):
    folder = await api.folder("folder")
    made = await post(api, form | {"resource": f"http://{host}/2.0/folders/{folder['id']}"}, status)
    assert status == 200 or made["error"] == "invalid_resource"
