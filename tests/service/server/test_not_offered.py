"""What the public API has is either offered or told to be not."""

import ast
import re
from pathlib import Path

import box_sdk_gen
import pytest

from cmsfs.service.api.operations import Operation
from cmsfs.service.server import app, not_offered

MANAGERS = Path(box_sdk_gen.__file__).parent / "managers"
LISTED = [line for lines in not_offered.FAMILIES.values() for line in lines]


def shape(method, path):
    return method, re.sub(r"{[^}]*}", "{}", path)


def _text(node: ast.expr) -> str:
    return "{}" if isinstance(node, ast.Call) else str(getattr(node, "value", ""))


def requests_of_the_client() -> set[tuple[str, str]]:
    """The methods and paths that the public API's own Python client knows, as its source builds them."""
    found = set()
    for module in MANAGERS.glob("*.py"):
        for call in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "FetchOptions":
                given = {one.arg: one.value for one in call.keywords}
                url = given["url"]
                if isinstance(url, ast.Call) and isinstance(url.args[0], ast.List):
                    path = "".join(_text(part) for part in url.args[0].elts[1:])
                    found.add((_text(given["method"]), path.removeprefix("/2.0").partition("#")[0]))
    return found


def is_offered(method, path):
    """Whether a route has the path; names in it may be any."""
    path = path.replace("thumbnail.{}", "thumbnail.png").replace("{}", "1")
    routes = [one for one in (*app.API, *app.OAUTH) if isinstance(one, Operation)]
    return any(
        one.method == method and one.path_regex.fullmatch(path.removesuffix("/") or "/") for one in routes
    )


def test_every_operation_of_the_client_is_offered_or_listed():
    known = requests_of_the_client()
    assert len(known) > 200
    listed = {shape(*line) for line in LISTED}
    missing = {one for one in known if not is_offered(*one)} - listed
    # The page to log in at is a host of its own.
    assert missing == {("GET", "/authorize")}


def test_nothing_is_both_offered_and_listed():
    assert [line for line in LISTED if is_offered(line[0], re.sub(r"{[^}]*}", "1", line[1]))] == []
    assert len(set(LISTED)) == len(LISTED)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/sign_requests"), ("PUT", "/hubs/7"), ("GET", "/file_requests/7")]
)
async def test_what_is_not_offered_is_told_so(api, method, path):
    for root in ("/2.0", "/api/2.0"):
        answer = await api.http.request(method, f"http://service.test{root}{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_offered")
        assert path in answer.json()["message"]


async def test_what_is_no_operation_at_all_is_not_found(api):
    answer = await api.http.request("GET", "/nothing/of/the/kind")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await api.http.request("PATCH", "/folders/0")).status_code == 405


async def test_the_documentation_lists_them(api):
    page = (await api.http.get("http://service.test/docs")).text
    for _, path in LISTED:
        assert f"<code>{path}</code>" in page
