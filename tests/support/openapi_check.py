"""Validates responses against the service's OpenAPI description.

Every response that a test of the service receives is checked here: its status must be documented for the
operation, and its body must match the schema.
"""

import json
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from starlette.routing import Route

from cmsfs.service.api import operations
from cmsfs.service.server import app, openapi
from tests.support import public_api, public_deviations

OTHERS = [*app.OAUTH, *app.PUBLIC]
OTHER_GROUPS = [*app.OAUTH_GROUPS, *app.PUBLIC_GROUPS]
PREFIXES = ("/api/2.0", "/2.0", "/api")


@cache
def document() -> dict[str, Any]:
    return openapi.document(app.API_GROUPS, OTHER_GROUPS, version="0")


def find(method: str, path: str) -> operations.Operation | None:
    """Return the operation that handles such a request, if it is described."""
    method = "GET" if method == "HEAD" else method
    for prefix, routes in (*((prefix, app.API) for prefix in PREFIXES[:2]), ("/api", OTHERS), ("", OTHERS)):
        if path.startswith(prefix):
            for route in routes:
                assert isinstance(route, Route), route
                if method in (route.methods or ()) and route.path_regex.match(path[len(prefix) :]):
                    return route if isinstance(route, operations.Operation) else None
    return None


@cache
def _described(name: str) -> dict[str, Any]:
    for path in document()["paths"].values():
        for one in path.values():
            if one["operationId"] == name:
                return one["responses"]
    raise AssertionError(f"{name} is not described")


@cache
def _validator(name: str, status: int) -> Any:
    content = _described(name)[str(status)].get("content", {})
    schema = content.get("application/json", {}).get("schema")
    if schema is None:
        return None
    # Only the needed schemas: all of them would be compiled for each validator.
    needed: dict[str, Any] = {}
    _collect(schema, needed)
    return jsonschema_rs.Draft202012Validator(schema | {"components": {"schemas": needed}})


def _collect(schema: object, found: dict[str, Any]) -> None:
    """Add to `found` the schemas that a schema refers to, recursively."""
    if isinstance(schema, dict):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name and name not in found:
            found[name] = document()["components"]["schemas"][name]
            _collect(found[name], found)
        schema = list(schema.values())
    if isinstance(schema, list):
        for one in schema:
            _collect(one, found)


async def check(answer: httpx.Response) -> None:
    """Fail if the response does not match the description."""
    one = find(answer.request.method, answer.request.url.path)
    if one is None:
        return
    name, status = one.name_of_operation, answer.status_code
    assert str(status) in _described(name), f"{one.line} does not say that it may answer {status}"
    await answer.aread()
    if answer.request.method == "HEAD" or not (validator := _validator(name, status)):
        return
    problems = [
        f"{error.instance_path}: {error.message}"
        for error in validator.iter_errors(json.loads(answer.content))
    ]
    assert not problems, (one.line, status, problems)
    await _check_publicly(answer)


async def _check_publicly(answer: httpx.Response) -> None:
    """Check the response against the public description as well, except for documented deviations."""
    request = answer.request
    if one := public_api.find(request.method, request.url.path):
        query = frozenset(request.url.params)
        json_there = "json" in answer.headers.get("content-type", "") and answer.content
        exchange = public_api.Exchange(
            method=request.method,
            path=request.url.path,
            query=query,
            asked=None,
            status=answer.status_code,
            answered=json.loads(answer.content) if json_there else None,
            length=len(answer.content),
        )
        untold = public_deviations.untold(public_api.problems_of_answer(one, exchange))
        assert not untold, untold
