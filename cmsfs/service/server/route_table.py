"""Finds the route of a request among those that its path can have.

Starlette's router tries one pattern after the other, some hundred for each request.  Here they are laid out
by the first part of their paths, and by how many parts these have; a request is given to a router that holds
only those, in their order.
"""

from collections.abc import Sequence

from starlette import routing, types
from starlette._utils import get_route_path

# Paths of more parts than any route are looked for among all.
_DEEPEST = 12


class RouteTable:
    """An ASGI application of routes, of which the first that matches answers."""

    def __init__(self, routes: Sequence[routing.BaseRoute]) -> None:
        self._all = _router(routes)
        self._firsts = {_first(_path(route)) for route in routes}
        # Made when a request comes that needs it: a service serves mostly few kinds of request.
        self._found: dict[tuple[str, int], routing.Router] = {}

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        path = get_route_path(scope)
        key = _first(path), path.count("/")
        if (router := self._found.get(key)) is None:
            router = self._router(*key)
        await router.app(scope, receive, send)

    def _router(self, first: str, depth: int) -> routing.Router:
        if first not in self._firsts or not 0 < depth < _DEEPEST:
            return self._all
        fitting = [route for route in self._all.routes if _fits(_path(route), first, depth)]
        found = self._found[first, depth] = _router(fitting)
        return found


def _router(routes: Sequence[routing.BaseRoute]) -> routing.Router:
    return routing.Router(routes, redirect_slashes=False)


def _path(route: routing.BaseRoute) -> str:
    assert isinstance(route, routing.Route | routing.Mount)
    return route.path + ("/{rest:path}" if isinstance(route, routing.Mount) else "")


def _first(path: str) -> str:
    return path[1:].partition("/")[0]


def _fits(path: str, first: str, depth: int) -> bool:
    """Whether a request with this first part and so many parts can have a path like that."""
    begins = _first(path)
    return (begins == first or begins.startswith("{")) and (":path}" in path or path.count("/") == depth)
