"""Finds the route of a request without trying all patterns.

Starlette's router tries one pattern after the other, about a hundred per request.  Here routes are indexed by
the first part of their path, its number of parts, and its last part if that is no variable; a request goes to
a router with only the matching ones, in their original order.
"""

from collections.abc import Sequence

from starlette import routing, types
from starlette._utils import get_route_path

# Deeper paths than any route's are tried against all routes.
_MAX_DEPTH = 12


class RouteTable:
    """An ASGI application that dispatches to the first route that matches."""

    def __init__(self, routes: Sequence[routing.BaseRoute]) -> None:
        self._all = _router(routes)
        paths = [_path(route) for route in routes]
        self._first_parts = {_first(path) for path in paths}
        self._last_parts = {(_first(path), path.count("/"), _last(path)) for path in paths}
        # Created on demand: most services see only few kinds of requests.  None: any last part.
        self._routers: dict[tuple[str, int, str | None], routing.Router] = {}

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        path = get_route_path(scope)
        key = _first(path), path.count("/"), _last(path)
        if (router := self._routers.get(key)) is None:
            router = self._router(*key)
        await router.app(scope, receive, send)

    def _router(self, first: str, depth: int, last: str | None) -> routing.Router:
        if first not in self._first_parts or not 0 < depth < _MAX_DEPTH:
            return self._all
        # Clients choose the last part of most paths: only for those of routes there is a router of its own.
        key = first, depth, last if (first, depth, last) in self._last_parts else None
        if (found := self._routers.get(key)) is None:
            candidates = [route for route in self._all.routes if _can_match(_path(route), *key)]
            found = self._routers[key] = _router(candidates)
        return found


def _router(routes: Sequence[routing.BaseRoute]) -> routing.Router:
    return routing.Router(routes, redirect_slashes=False)


def _path(route: routing.BaseRoute) -> str:
    assert isinstance(route, routing.Route | routing.Mount)
    return route.path + ("/{rest:path}" if isinstance(route, routing.Mount) else "")


def _first(path: str) -> str:
    return path[1:].partition("/")[0]


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _can_match(path: str, first: str, depth: int, last: str | None) -> bool:
    """Whether a route's path can match a request with this first and last part and number of parts."""
    begins, ends = _first(path), _last(path)
    is_first = begins == first or begins.startswith("{")
    is_last = last is None or ends == last or "{" in ends
    return is_first and is_last and (":path}" in path or path.count("/") == depth)
