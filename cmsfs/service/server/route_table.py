"""Finds the route of a request without trying all patterns.

Starlette's router tries one pattern after the other, about a hundred per request.  Here routes are indexed by
the first part of their path, its number of parts, and its last part if that is no variable; a request goes to
a router with only the matching ones, in their original order, except that those for its method come first.
"""

from collections.abc import Mapping, Sequence

from starlette import routing, types
from starlette._utils import get_route_path

# Deeper paths than any route's are tried against all routes.
_MAX_DEPTH = 12

# Method, first part, number of parts, last part; None: any last part.
_Key = tuple[str, str, int, str | None]


class RouteTable:
    """An ASGI application that dispatches to the first route that matches.

    `mounts` are the tables for all that is below a path; no route is there itself.
    """

    def __init__(
        self, routes: Sequence[routing.Route], mounts: Mapping[str, "RouteTable"] | None = None
    ) -> None:
        self._all = _router(routes)
        self._mounts = [(f"{above}/", above, table) for above, table in (mounts or {}).items()]
        assert not [one for one in routes for below, _, _ in self._mounts if one.path.startswith(below)]
        self._methods = {method for route in routes for method in route.methods or ()}
        self._first_parts = {_first(route.path) for route in routes}
        self._last_parts = {(_first(one.path), one.path.count("/"), _last(one.path)) for one in routes}
        # Created on demand: most services see only few kinds of requests.
        self._routers: dict[_Key, routing.Router] = {}

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        path = get_route_path(scope)
        for below, above, table in self._mounts:
            if path.startswith(below):
                # As Starlette's `Mount` does.
                root = scope.get("root_path", "")
                scope.setdefault("app_root_path", root)
                scope["root_path"] = root + above
                await table(scope, receive, send)
                return
        key = scope["method"], _first(path), path.count("/"), _last(path)
        if (router := self._routers.get(key)) is None:
            router = self._router(*key)
        await router.app(scope, receive, send)

    def _router(self, method: str, first: str, depth: int, last: str | None) -> routing.Router:
        is_known = method in self._methods and first in self._first_parts
        if not is_known or not 0 < depth < _MAX_DEPTH:
            return self._all
        # Clients choose the last part of most paths: only for those of routes there is a router of its own.
        key = method, first, depth, last if (first, depth, last) in self._last_parts else None
        if (found := self._routers.get(key)) is None:
            candidates = [route for route in self._all.routes if _can_match(route, *key[1:])]
            candidates.sort(key=lambda route: method not in (getattr(route, "methods", None) or {method}))
            found = self._routers[key] = _router(candidates)
        return found


def _router(routes: Sequence[routing.BaseRoute]) -> routing.Router:
    return routing.Router(routes, redirect_slashes=False)


def _first(path: str) -> str:
    return path[1:].partition("/")[0]


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _can_match(route: routing.BaseRoute, first: str, depth: int, last: str | None) -> bool:
    """Whether a route's path can match a request with this first and last part and number of parts."""
    assert isinstance(route, routing.Route)
    path = route.path
    begins, ends = _first(path), _last(path)
    is_first = begins == first or begins.startswith("{")
    is_last = last is None or ends == last or "{" in ends
    return is_first and is_last and (":path}" in path or path.count("/") == depth)
