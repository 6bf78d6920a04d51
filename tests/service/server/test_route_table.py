"""A request reaches the route that comes first among those that match it."""

import re

import pytest
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router

from cmsfs.service.api.operations import Operation
from cmsfs.service.server import app
from cmsfs.service.server.route_table import RouteTable


def named(number):
    """An endpoint that says which it is."""

    async def endpoint(scope, receive, send):
        scope["answered"].append(number)

    return endpoint


@pytest.mark.parametrize("text", ["1", "trash", "content", "current", "execute_read"])
async def test_the_first_that_matches_answers(text):
    operations = [one for one in app.API if isinstance(one, Operation)]
    routes = [Route(one.path, named(n), methods=[one.method]) for n, one in enumerate(operations)]
    for number, route in enumerate(routes):
        route.app = named(number)
    plain, table = Router(routes, redirect_slashes=False), RouteTable(routes)
    for operation in operations:
        path = re.sub(r"\{[^}]*:path\}", f"{text}/x", operation.path)
        path = re.sub(r"\{[^}]*\}", text, path)
        answered: list[int] = []
        for router in (plain, table):
            scope = {"type": "http", "method": operation.method, "path": path, "headers": []}
            await router({**scope, "answered": answered}, None, None)
        assert len(answered) == 2
        assert answered[0] == answered[1], path


async def test_many_paths_are_routed_by_few_routers(monkeypatch):
    """Clients choose the paths: a router for each would fill the memory."""
    made = []

    def noted(*routes, **how):
        made.append(Router(*routes, **how))
        return made[-1]

    monkeypatch.setattr(routing, "Router", noted)
    routes = [Route("/files/{id}/content", named(0)), Route("/files/{id}", named(1))]
    for number, route in enumerate(routes):
        route.app = named(number)
    table = RouteTable(routes)

    async def send(message):
        """Answers do not matter here."""

    for number in range(100):
        for path in (f"/files/{number}", f"/files/1/{number}", f"/files/{number}/content", f"/{number}/1"):
            scope = {"type": "http", "method": "GET", "path": path, "headers": [], "answered": []}
            await table(scope, None, send)
    # All routes; files by their IDs; contents; what else is below a file.
    assert len(made) == 4


async def test_the_longer_of_two_mounts_answers_what_is_below_it():
    """A table has the rest of the path, and what comes before it as its root; the mount itself is no path."""
    inner, outer = Route("/2.0", named(0)), Route("/files/{id}", named(1))
    inner.app, outer.app = named(0), named(1)
    table = RouteTable([], {"/api/2.0": RouteTable([outer]), "/api": RouteTable([inner])})
    for path, found, root in (("/api/2.0/files/7", 1, "/api/2.0"), ("/api/2.0", 0, "/api")):
        answered: list[int] = []
        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "answered": answered}
        await table(scope, None, None)
        assert answered == [found]
        assert scope["root_path"] == root
        assert scope["app_root_path"] == ""


async def test_the_route_for_the_method_comes_first():
    """Where there is none for the method: 405."""
    routes = [Route("/files/{id}", named(n), methods=[name]) for n, name in enumerate(("PUT", "DELETE"))]
    for number, route in enumerate(routes):
        route.app = named(number)
    table = RouteTable(routes)
    for method, found in (("DELETE", 1), ("PUT", 0)):
        answered: list[int] = []
        scope = {"type": "http", "method": method, "path": "/files/1", "headers": [], "answered": answered}
        await table(scope, None, None)
        assert answered == [found]
    scope = {"type": "http", "method": "POST", "path": "/files/1", "headers": [], "app": None}
    with pytest.raises(HTTPException) as raised:
        await table(scope, None, None)
    assert (raised.value.status_code, raised.value.headers) == (405, {"Allow": "PUT"})
