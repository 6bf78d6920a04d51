"""A request reaches the route that comes first among those that match it."""

import re

import pytest
from starlette import routing
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
