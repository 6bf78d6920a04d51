"""The ASGI application: routes of all modules under the API's and the upload host's paths.

`build` is all that a server, an in-process transport or a test needs.  One server acts as all hosts of the
public API: for a server at URL u, base_url is u/2.0, upload_url is u/api/2.0 and auth_url is u.

Rule: a capability is a module that exports `routes`, a list of operations; to add one, add a group here.
"""

from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from starlette import exceptions, requests, types

from cmsfs.service import problems
from cmsfs.service.admin import pages, usage
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Group, Operation
from cmsfs.service.archives import zip_downloads
from cmsfs.service.content import (
    cascade_policies,
    comments,
    downloads,
    files,
    folder_locks,
    folders,
    instances,
    representation_files,
    trash,
    versions,
    watermarks,
    web_links,
)
from cmsfs.service.events import event_watch, events
from cmsfs.service.governance import legal_holds, retention, version_policies
from cmsfs.service.groups import groups, memberships
from cmsfs.service.metadata import templates
from cmsfs.service.oauth import authorize, tokens
from cmsfs.service.personal import collections, recent_items
from cmsfs.service.renditions import embed_links, thumbnails
from cmsfs.service.search import metadata_search, result_cache, search
from cmsfs.service.server import docs_page, health, not_offered, openapi, rate_limits
from cmsfs.service.server.route_table import RouteTable
from cmsfs.service.sharing import (
    collaborations,
    collaborations_allowlist,
    exemptions,
    share_pages,
    shared_items,
)
from cmsfs.service.storage.shared import attempt_limits
from cmsfs.service.storage.store import Store
from cmsfs.service.tasks import assignments, tasks
from cmsfs.service.uploads import direct_uploads, upload_sessions
from cmsfs.service.users import (
    avatars,
    device_pinners,
    email_aliases,
    invites,
    session_terminations,
    storage_policies,
    terms_of_service,
    terms_statuses,
    transfers,
    users,
)
from cmsfs.service.web import pages as web_pages
from cmsfs.service.webhooks import receivers, webhooks

# In routing order: more specific paths come before those with an id in the same position.
API_GROUPS = [
    Group("search", "Full-text and metadata search over items, one page at a time.", search.routes),
    Group("metadata_queries", "Items by conditions on their metadata.", metadata_search.routes),
    Group(
        "session_terminations",
        "An administrator ends sessions of users: they log in, and authorize applications, anew.",
        session_terminations.routes,
    ),
    Group(
        "upload_sessions",
        "Chunked uploads: parts in any order, resumed after an interruption, then committed.",
        upload_sessions.routes,
        at_uploads=True,
    ),
    Group(
        "uploads",
        "Upload a new file or a new version, or check beforehand whether it would be accepted.",
        direct_uploads.routes,
        at_uploads=True,
    ),
    Group("shared_items", "The item that a shared link leads to.", shared_items.routes),
    Group("files", "Get, change, delete and copy files.", files.routes),
    Group(
        "downloads",
        "The content of files, and the addresses that it is downloaded from.",
        downloads.routes,
    ),
    Group(
        "zip_downloads",
        "Several files and folders as one ZIP archive.",
        zip_downloads.routes,
    ),
    Group(
        "internal_files",
        "Representations of files: their status and their content.",
        representation_files.routes,
    ),
    Group("thumbnails", "Thumbnails of files, as PNG or JPEG.", thumbnails.routes),
    Group("watermarks", "Watermarks on files, and on folders with everything below them.", watermarks.routes),
    Group("comments", "Comments on files, and replies to them.", comments.routes),
    Group("tasks", "What is to be done with files.", tasks.routes),
    Group("task_assignments", "Who is to do a task, and whether it is done.", assignments.routes),
    Group(
        "versions",
        "Earlier versions of a file: list, get, trash, restore and promote them.",
        versions.routes,
    ),
    Group(
        "folders",
        "Get, list, create, change, copy and delete folders, and list the trash.",
        folders.routes,
    ),
    Group(
        "web_links",
        "Create, get, change and delete web links, and restore them from the trash.",
        web_links.routes,
    ),
    Group(
        "folder_locks",
        "Locks that keep folders from being moved and deleted.",
        folder_locks.routes,
    ),
    Group("collections", "The favorites of the user.", collections.routes),
    Group("recent_items", "What the user last worked on.", recent_items.routes),
    Group("trash", "Get, restore and permanently delete what is in the trash.", trash.routes),
    Group(
        "events",
        "The event stream: one event for each change, kept for three weeks, and the long poll for the next.",
        events.routes,
    ),
    Group(
        "users",
        "The current user, and the users of the enterprise; administrators create, change and delete them.",
        users.routes,
    ),
    Group("transfers", "All content of a user, given to another.", transfers.routes),
    Group("email_aliases", "Further addresses that users are known by.", email_aliases.routes),
    Group("avatars", "Pictures of users.", avatars.routes),
    Group("invites", "Invitations of users of other enterprises.", invites.routes),
    Group("terms_of_service", "What users are to agree to.", terms_of_service.routes),
    Group("terms_statuses", "Who has agreed to terms of service.", terms_statuses.routes),
    Group("storage_policies", "Where contents are kept.", storage_policies.routes),
    Group("device_pinners", "Devices that are allowed by name.", device_pinners.routes),
    Group("webhooks", "Addresses that are told what happens to items.", webhooks.routes),
    Group("groups", "Groups of users, and what they collaborate on.", groups.routes),
    Group("memberships", "Who is in a group.", memberships.routes),
    Group(
        "legal_holds",
        "Legal hold policies: list, create, change and release them.",
        legal_holds.routes,
    ),
    Group(
        "legal_hold_assignments",
        "What a legal hold is assigned to, and the files and versions on hold by it.",
        legal_holds.assignment_routes,
    ),
    Group(
        "retention",
        "Retention policies: list, create, change, retire and delete them.",
        retention.routes,
    ),
    Group(
        "retention_assignments",
        "What a retention policy is assigned to, and the files under it.",
        retention.assignment_routes,
    ),
    Group("version_policies", "Versions that are on hold or retained.", version_policies.routes),
    Group(
        "metadata_templates",
        "Metadata templates: list, create, change and delete them.",
        templates.routes,
    ),
    Group(
        "metadata",
        "Metadata instances on files and folders: list, create, change by JSON Patch and delete them.",
        instances.routes,
    ),
    Group(
        "cascade_policies",
        "Folders whose metadata everything below gets, too.",
        cascade_policies.routes,
    ),
    Group(
        "exemptions",
        "Users to whom the enterprise's list of domains for collaboration does not apply.",
        exemptions.routes,
    ),
    Group(
        "collaborations",
        "Collaborations on files and folders: list, invite, change, accept, reject and end them.",
        collaborations.routes,
    ),
    Group(
        "collaborations_allowlist",
        "The domains that an enterprise collaborates with.",
        collaborations_allowlist.routes,
    ),
]

# OAuth endpoints, served both at the root and below /api: clients use both.
OAUTH_GROUPS = [
    Group("tokens", "The token endpoint with its five grants, and revocation.", tokens.routes),
    Group(
        "authorize",
        "The authorization endpoint: a person logs in and gives an application access.",
        authorize.routes,
    ),
]

# Operations without a token: items of open links, signed URLs, and placeholder pictures.
PUBLIC_GROUPS = [
    Group("shared_items", routes=shared_items.public_routes),
    Group("downloads", routes=downloads.public_routes),
    Group("zip_downloads", routes=zip_downloads.public_routes),
    Group("thumbnails", routes=thumbnails.public_routes),
    Group(
        "embed_links",
        "Expiring embed links: an address that shows a file to whoever has it, for at most an hour.",
        embed_links.public_routes,
    ),
]

API = operations.flat(API_GROUPS)
OAUTH = operations.flat(OAUTH_GROUPS)
PUBLIC = operations.flat(PUBLIC_GROUPS)

# Pages for browsers.
PAGES = [*health.routes, *docs_page.routes, *share_pages.routes, *web_pages.routes, *pages.routes]

# By method and path, as `scopes` writes them.
OPERATIONS = {one.line: one for one in API if isinstance(one, Operation)}

# Shared by all services of a process: the store comes with the request.
_API_TABLE = RouteTable(API)
ROUTES = RouteTable(
    [*PAGES, *OAUTH, *PUBLIC],
    {"/2.0": _API_TABLE, "/api/2.0": _API_TABLE, "/api": RouteTable(OAUTH)},
)


class Service:
    """The application.  Handlers access it as `request.app`, and the store through it.

    It uses Starlette's router without Starlette's application class, whose error pages would take precedence
    over `problems.ErrorMiddleware`.
    """

    def __init__(
        self,
        store: Store,
        url: str | None = None,
        *,
        public_url: str | None = None,
        rates: rate_limits.RateLimits | None = None,
        webhook_networks: receivers.Networks = (),
        counts: usage.RequestCounts | None = None,
    ) -> None:
        self.store = store
        self.webhook_networks = webhook_networks
        self._public = None if public_url is None else urlsplit(public_url)
        self._rates = rates
        self._counts = counts
        self.searches = result_cache.ResultCache(store)
        self.watch = event_watch.EventWatch(store, events.expire_collaborations)
        self.archives = zip_downloads.RequestedArchives(store)
        self.contents_probe = health.ContentsProbe(store)
        # The allowed audiences of an assertion.  The request's own URL does not count: with a stolen
        # assertion for another service, an attacker would send that service's host name.
        self.token_urls = frozenset(
            {tokens.PUBLIC_URL}
            | {f"{one}{prefix}/oauth2/token" for one in (url, public_url) for prefix in ("", "/api") if one}
        )
        self.operations = OPERATIONS

    @cached_property
    def description(self) -> dict[str, Any]:
        """The OpenAPI description of the service."""
        return openapi.document(API_GROUPS, [*OAUTH_GROUPS, *PUBLIC_GROUPS], version=docs_page.version())

    @cached_property
    def description_page(self) -> str:
        """The description as an HTML page."""
        return docs_page.document(self.description)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        scope["app"] = self
        if self._public is not None and scope["type"] == "http":
            # URLs in responses are built from the request's scheme and host.
            scope["scheme"] = self._public.scheme
            others = [one for one in scope["headers"] if one[0] != b"host"]
            scope["headers"] = [(b"host", self._public.netloc.encode()), *others]
        try:
            await ROUTES(scope, receive, send)
        except exceptions.HTTPException as error:
            not_offered_error = _not_offered_error(scope) if error.status_code in (404, 405) else None
            raise error if not_offered_error is None else not_offered_error from None

    def address(self, scope: types.Scope) -> str:
        """The client's network, taken from the proxy's header if there is a proxy."""
        client = scope.get("client")
        found = client[0] if client else ""
        if self._public is not None:
            # A proxy appends the address that it sees; everything before that can be forged by the client.
            forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
            found = forwarded[-1].decode("latin-1").rpartition(",")[2].strip() if forwarded else found
        return attempt_limits.network(found)

    def admit(self, request: requests.Request, user: int, enterprise: int) -> None:
        """Record the user of a request and count it; 429 if a rate limit is exceeded."""
        request.scope["user_id"] = user
        if self._counts is not None:
            self._counts[enterprise] += 1
        if self._rates is not None:
            self._rates.take(request.method, request.scope["path"], user=user, enterprise=enterprise)

    def admit_application(self, request: requests.Request, client_id: str) -> None:
        """Count a token request; 429 if the client's address exceeds the limit for this application."""
        if self._rates is not None:
            self._rates.take_token(self.address(request.scope), client_id)


def _not_offered_error(scope: types.Scope) -> problems.Refused | None:
    """The refusal for an operation of the public API that this service does not offer, if it is one."""
    for root in ("/2.0", "/api/2.0"):
        if scope["path"].startswith(f"{root}/"):
            return not_offered.refusal(scope["method"], scope["path"].removeprefix(root))
    return None


def build(
    store: Store,
    url: str | None = None,
    *,
    public_url: str | None = None,
    rates: rate_limits.RateLimits | None = None,
    webhook_networks: receivers.Networks = (),
    counts: usage.RequestCounts | None = None,
) -> types.ASGIApp:
    """The ASGI application on a store.

    `url` is the URL of the server, if there is one; `public_url` its URL behind a proxy.  `rates` are the
    rate limits; None for none.  `webhook_networks` are the private networks that webhooks may call.  `counts`
    counts the requests of users.
    """
    service = Service(
        store, url, public_url=public_url, rates=rates, webhook_networks=webhook_networks, counts=counts
    )
    return problems.ErrorMiddleware(service)
