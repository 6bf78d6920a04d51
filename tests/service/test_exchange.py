"""Narrowing a token: what is asked for, what comes back, and that nothing is ever widened."""

import json

import pytest

from cmsfs.models import tokens

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


async def test_the_answer_says_what_the_token_is_restricted_to(api, form):
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
    assert (await post(api, again | {"resource": "https://x/2.0/folders/0"}, 400))[
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
