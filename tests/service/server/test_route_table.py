"""A request reaches the route that comes first among those that match it."""

import re

import pytest
from starlette.routing import Route, Router

from cmsfs.service.api.operations import Operation
from cmsfs.service.server import app
from cmsfs.service.server.route_table import RouteTable


def named(number):
    """An endpoint that says which it is."""

    async def endpoint(scope, receive, send):
        scope["answered"].append(number)

    return endpoint


@pytest.mark.parametrize("text", ["1", "trash", "content", "current"])
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
