"""The application: the capability modules' routes under the API's and the upload host's paths.

`build` is all that a server, a transport in the same process or a test needs.  One server plays all hosts
of the public API: for a server at URL u, base_url is u/2.0, upload_url is u/api/2.0 and auth_url is u.

Rule: a capability is a module that exports `routes`, a list of operations; adding one is a line here.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from starlette import routing, types

from cmsfs.service import (
    authorize,
    docs_page,
    events,
    exemptions,
    files,
    folders,
    legal_hold_assignments,
    legal_holds,
    metadata,
    metadata_templates,
    openapi,
    problems,
    retention,
    retention_assignments,
    search,
    shared_items,
    tokens,
    trash,
    upload_sessions,
    uploads,
    users,
    versions,
    web_links,
)
from cmsfs.service.admin import pages as admin
from cmsfs.service.admin.notices import Notices
from cmsfs.service.operations import Operation
from cmsfs.service.store import Store

# More particular paths come before those with an id in the same place.
API = [
    *search.routes,
    *upload_sessions.routes,
    *uploads.routes,
    *shared_items.routes,
    *files.routes,
    *versions.routes,
    *folders.routes,
    *web_links.routes,
    *trash.routes,
    *events.routes,
    *users.routes,
    *legal_holds.routes,
    *legal_hold_assignments.routes,
    *retention.routes,
    *retention_assignments.routes,
    *metadata_templates.routes,
    *metadata.routes,
    *exemptions.routes,
]

# The ways to a token; both of their places are in use.
OAUTH = [*tokens.routes, *authorize.routes]

# What people look at.
PAGES = [*docs_page.routes, *admin.routes]


class Service:
    """The application.  Handlers find it as `request.app` and the store on it.

    It is Starlette's router without Starlette's application around it, whose own error pages would answer
    before `problems.Edge` could.
    """

    def __init__(self, store: Store, url: str | None = None) -> None:
        self.store = store
        # What an assertion may be meant for.  The address that a request names is no proof: whoever got hold
        # of an assertion for another service would name that one's.
        self.token_urls = frozenset(
            {tokens.PUBLIC_URL} | {f"{url}{prefix}/oauth2/token" for prefix in ("", "/api") if url}
        )
        self.operations = {one.line: one for one in API if isinstance(one, Operation)}
        self.notices = Notices()
        self._router = _router(
            [
                *PAGES,
                *OAUTH,
                *shared_items.public_routes,
                routing.Mount("/2.0", _router(API)),
                routing.Mount("/api/2.0", _router(API)),
                routing.Mount("/api", _router(OAUTH)),
            ]
        )

    @cached_property
    def description(self) -> dict[str, Any]:
        """What programs are told of the service, by OpenAPI."""
        others = [*OAUTH, *shared_items.public_routes]
        return openapi.document(API, others, version=docs_page.version())

    @cached_property
    def description_page(self) -> str:
        """The same for people."""
        return docs_page.document(self.description)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        scope["app"] = self
        await self._router(scope, receive, send)


def build(store: Store, url: str | None = None) -> types.ASGIApp:
    """The ASGI application on a store; `url` is where clients find it, if they do."""
    return problems.Edge(Service(store, url))


def _router(routes: Sequence[routing.BaseRoute]) -> routing.Router:
    return routing.Router(routes, redirect_slashes=False)
