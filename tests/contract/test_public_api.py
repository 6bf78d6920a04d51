"""The table of the public API's facts: it is whole, and the deviations from it are few and told."""

import hashlib
import json
import re
from pathlib import Path

import httpx
import pydantic
import pytest

from cmsfs import errors
from cmsfs.client.content.uploads import BytesSource
from cmsfs.models.content import upload_sessions as models_upload_sessions
from cmsfs.models.enterprise import collaborations, tokens
from cmsfs.service.api import operations
from cmsfs.service.server import app
from cmsfs.service.uploads import upload_sessions
from tests.support import public_api, public_deviations

SERVICE = Path(__file__).parents[2] / "cmsfs" / "service"

# What clients ask for, and the description does not have.
UNDESCRIBED = {
    *("GET /oauth2/authorize", "POST /oauth2/authorize"),  # a page, on a host of its own
    "GET /events/wait",  # an answer says where the long poll goes
    *(f"GET /internal_files/{{}}/versions/{{}}/representations/{{}}{end}" for end in ("", "/content/{}")),
    "OPTIONS /files/{}/content",  # whether a version would be taken
    "POST /files/upload_sessions/{}/log",
    # The specification's names of what the description calls files and versions.
    "GET /legal_hold_policy_assignments/{}/file_versions_on_hold",
    "GET /retention_policy_assignments/{}/file_versions_under_retention",
}

TOKEN = "POST http://service.test/oauth2/token"
DATA = bytes(range(256)) * 40


def _offered() -> set[str]:
    routes = [one for one in (*app.API, *app.OAUTH) if isinstance(one, operations.Operation)]
    return {f"{one.method} {re.sub(r'{[^}]*}', '{}', one.path_format).rstrip('/')}" for one in routes}


def test_the_table_has_every_operation_that_is_offered():
    missing = {one for one in _offered() if public_api.find(*one.replace("{}", "1").split()) is None}
    assert missing == UNDESCRIBED


def test_the_documentation_tells_each_deviation():
    text = (SERVICE / "API.md").read_text(encoding="utf-8").partition("# Deviations from the public API")[2]
    told = re.findall(r"^\| (?!-|Deviation)(.*?) \|", text, re.MULTILINE)
    assert told == [one.name for one in public_deviations.DEVIATIONS]


@pytest.fixture
async def ask(way, credentials):
    """`await ask("GET /users/me", 200)`: the answer to a request as others write it."""
    async with httpx.AsyncClient(transport=way.transport, base_url="http://service.test/2.0") as http:

        async def run(line, expect, **options):
            method, path = line.split()
            answer = await http.request(method, path, **options)
            assert answer.status_code == expect, answer.text
            return answer.json() if "json" in answer.headers.get("content-type", "") else None

        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "box_subject_type": "user",
            "box_subject_id": credentials.user_id,
        }
        token = (await run(TOKEN, 200, data=form))["access_token"]
        http.headers["authorization"] = f"Bearer {token}"
        exchange = {"subject_token": token, "subject_token_type": tokens.ACCESS_TOKEN_TYPE}
        exchange |= {"grant_type": tokens.TOKEN_EXCHANGE, "scope": "root_readonly"}
        await run(TOKEN, 200, data=exchange)
        yield run


@pytest.mark.parametrize("way", ["embedded"], indirect=True)
async def test_each_deviation_is_there(ask, client, anonymous, upload, exchanges, monkeypatch):
    monkeypatch.setattr(upload_sessions, "PART_SIZE", 1000)
    monkeypatch.setattr(models_upload_sessions, "MIN_FILE_SIZE", 100)
    folder = await client.folders.create("walked", "0")
    file = await upload("a.txt", b"text", folder.id)

    # Answers of the service.
    with pytest.raises(errors.Unauthorized):
        await anonymous.users.me()
    hold = await ask("POST /legal_hold_policies", 201, json={"policy_name": "a", "is_ongoing": True})
    assert (await ask(f"GET /legal_hold_policies/{hold['id']}", 200))["id"] == hold["id"]
    policy = {"policy_name": "b", "policy_type": "finite", "retention_length": "30"}
    kept = await ask(
        "POST /retention_policies", 201, json=policy | {"disposition_action": "remove_retention"}
    )
    assigned = {"policy_id": kept["id"], "assign_to": {"type": "folder", "id": folder.id}}
    await ask("POST /retention_policy_assignments", 201, json=assigned)
    taken = {"name": "a.txt", "parent": {"id": folder.id}, "size": 1}
    await ask("OPTIONS /files/content", 409, json=taken)
    await ask(f"POST /files/{file.id}/metadata/global/properties", 201, json={"a": "b"})
    await ask(f"GET /files/{file.id}/metadata/global/properties", 200)
    some = {"range": "bytes=0-1", "prefer": "return=representation"}
    await ask(f"GET /files/{file.id}/content", 206, headers=some)

    # Requests of our own client.
    session = await client.upload_sessions.begin(folder.id, "large", len(DATA))
    parts = await client.upload_sessions.send(session, BytesSource(DATA))
    sha1 = hashlib.sha1(DATA).hexdigest()
    await client.upload_sessions.commit(session, parts, sha1=sha1, content_modified_at=file.modified_at)
    await client.web_links.create("https://example.com", folder.id)
    await client.uploads.new_version(file.id, BytesSource(b"more"), sha1=hashlib.sha1(b"more").hexdigest())
    made = await client.collaborations.create("folder", folder.id, "viewer", login="ben@example.com")
    wish = collaborations.UpdateCollaboration(role="editor", expires_at=None)
    await client.collaborations.update(made.id, wish)

    url = (await client.shared_links.share("folder", folder.id)).url
    await anonymous.tokens.request(
        tokens.LinkVisit(shared_link=url, shared_link_password=pydantic.SecretStr("none"))
    )

    # Requests of others' clients.
    await ask(f"PUT /files/{file.id}", 200, json={"content_modified_at": "2020-01-02T03:04:05Z"})
    job = {"scope": "enterprise", "templateKey": "job", "displayName": "Job"}
    scope = (await ask("POST /metadata_templates/schema", 201, json=job))["scope"]
    policy = {"folder_id": folder.id, "scope": scope, "templateKey": "job"}
    await ask("POST /metadata_cascade_policies", 201, json=policy)
    await ask(f"PUT /files/{file.id}", 200, json={"lock": {"access": "lock"}})
    attributes = {"name": "sized.txt", "parent": {"id": folder.id}, "size": 4}
    form = {"attributes": (None, json.dumps(attributes)), "file": ("x", b"text")}
    await ask("POST http://service.test/api/2.0/files/content", 201, files=form)

    seen = {public_deviations.named(line) for one in exchanges for line in public_api.problems(one)}
    assert seen == {one.name for one in public_deviations.DEVIATIONS}
