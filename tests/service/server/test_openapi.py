"""The description of the service: complete, of the same models, and readable without the net."""

import re

import httpx
import pytest
from starlette import routing

from cmsfs.service.access import scopes
from cmsfs.service.api import operations
from cmsfs.service.server import app, openapi
from tests.support import openapi_check

OPERATIONS = [one for one in (*app.API, *openapi_check.OTHERS) if isinstance(one, operations.Operation)]
SHOWN = [one for one in OPERATIONS if not one.path.endswith("/")]


def _described():
    return {
        (method.upper(), path): one
        for path, methods in openapi_check.document()["paths"].items()
        for method, one in methods.items()
    }


def test_every_route_is_described():
    plain = [one for one in (*app.API, *openapi_check.OTHERS) if not isinstance(one, operations.Operation)]
    said = "make it operations.Operation(LINE, HANDLER, WHAT IT IS, SHAPE OF THE ANSWER, query=…, body=…)"
    assert [(one, said) for one in plain] == []


def test_the_description_holds_the_routes_and_nothing_else():
    lines = {(method, re.sub(r"^(/api)?/2\.0", "", path)) for method, path in _described()}
    assert lines == {(one.method, one.path_format) for one in SHOWN}


@pytest.mark.parametrize("one", SHOWN, ids=lambda one: one.line)
def test_an_operation_says_what_there_is_to_know(one):
    found = next(that for that in _described().values() if that["operationId"] == one.name_of_operation)
    assert found["summary"] == one.says
    (tag,) = found["tags"]
    assert tag in {that["name"] for that in openapi_check.document()["tags"] if that["description"]}
    in_path = {"name", "in", "required", "schema"}
    assert [that["name"] for that in found["parameters"] if in_path <= that.keys()] or "{" not in one.path
    answers = found["responses"]
    assert any(status.startswith("2") for status in answers)
    if not one.public:
        assert {"400", "401", "403", "429", "503"} <= answers.keys()
        assert scopes.find(one.method, one.path) is not None
    if one.method in ("POST", "PUT") and "requestBody" not in found:
        assert one.path.endswith("/log")  # the log of an upload, whose body nobody reads
    if "requestBody" in found:
        (content,) = found["requestBody"]["content"].values()
        assert content["schema"]
        assert "413" in answers
    for status, answer in answers.items():
        assert answer["description"]
        empty = {"202", "204", "302", "303", "304", "401"} | (
            {"200"} if one.says == "Revoke a token" else set()
        )
        assert "content" in answer or status in empty, status


def test_a_route_without_a_description_is_noticed():
    bare = routing.Route("/things", lambda request: None, methods=["GET"])
    groups = [*app.API_GROUPS, operations.Group("things", "Things.", [bare])]
    assert openapi.document(groups, openapi_check.OTHER_GROUPS, version="0") == openapi_check.document()
    assert not isinstance(bare, operations.Operation)


def test_operations_have_names_of_their_own():
    names = [one.name_of_operation for one in SHOWN]
    assert len(set(names)) == len(names)
    wanted = {
        *("get_search", "post_files_content", "get_users", "get_users_id", "post_users"),
        *("get_legal_hold_policies", "put_legal_hold_policies_id", "get_retention_policy_assignments_id"),
        *("delete_metadata_templates_id_id_schema", "post_web_links_id", "post_oauth2_token"),
        "get_collaboration_whitelist_exempt_targets_id",
    }
    assert wanted <= set(names)


def test_search_parameters_match_the_model():
    found = _described()["GET", "/2.0/search"]["parameters"]
    by_name = {one["name"]: one for one in found if "name" in one}
    assert by_name["limit"]["schema"] == {"type": "integer", "minimum": 1, "default": 30}
    assert by_name["offset"]["schema"]["maximum"] == 10_000
    assert by_name["ancestor_folder_ids"]["explode"] is False
    assert by_name["created_at_range"]["schema"]["type"] == "string"
    assert "application/json" in by_name["mdfilters"]["content"]


def test_the_scopes_are_those_of_the_table():
    def enough(method, path):
        return [one["oauth"] for one in _described()[method, path]["security"]]

    assert enough("GET", "/2.0/files/{id}/content") == [["root_readonly"], ["root_readwrite"]]
    assert enough("POST", "/api/2.0/files/content") == [["root_readwrite"]]
    assert enough("GET", "/2.0/users/me") == [[]]
    assert enough("PUT", "/2.0/legal_hold_policies/{id}") == [["manage_legal_holds", "enterprise_content"]]
    assert enough("POST", "/oauth2/token") == []
    said = _described()["GET", "/2.0/files/{id}/content"]["description"]
    assert "`item_download` or `root_readonly` or `root_readwrite`" in said


def test_every_reference_leads_somewhere():
    document = openapi_check.document()

    def walk(value):
        if isinstance(value, dict):
            for name, one in value.items():
                if name == "$ref":
                    _, components, kind, last = one.split("/")
                    assert components == "components"
                    assert last in document["components"][kind], one
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    walk(document)
    assert all(name.isidentifier() for name in document["components"]["schemas"])


@pytest.fixture
async def visitor(service):
    transport = httpx.ASGITransport(app.build(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as one:
        yield one


async def test_it_is_served_to_everybody(visitor):
    answer = await visitor.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["openapi"] == "3.1.0"
    assert found["paths"] == openapi_check.document()["paths"]
    assert found["components"]["securitySchemes"]["oauth"]["type"] == "oauth2"


async def test_the_page_is_whole_without_the_net(visitor):
    root = await visitor.get("/")
    assert root.status_code == 200
    for target in ("/docs", "/openapi.json", "/admin"):
        assert f'href="{target}"' in root.text
    page = await visitor.get("/docs")
    assert page.status_code == 200
    for one in SHOWN:
        assert f'id="{one.name_of_operation}"' in page.text
    assert "<script" not in page.text
    assert not re.search(r'(src|href)="(https?:)?//', page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    # What a link in the page leads to is in the page.
    targets = set(re.findall(r'href="#([^"]+)"', page.text))
    assert targets <= set(re.findall(r'id="([^"]+)"', page.text))


async def test_undescribed_response_fails_its_test(api):
    answer = await api.http.get("/users/me")
    await openapi_check.check(answer)
    strange = httpx.Response(418, request=answer.request, content=b"{}")
    with pytest.raises(AssertionError, match="418"):
        await openapi_check.check(strange)
    wrong = httpx.Response(200, request=answer.request, content=b'{"type": "user", "id": 5}')
    with pytest.raises(AssertionError, match="not of type"):
        await openapi_check.check(wrong)
