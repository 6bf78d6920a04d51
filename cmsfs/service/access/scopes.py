"""OAuth scopes: which exist, which include others, and which each operation requires.

`calls.guarded` checks them before any handler runs.  An operation without a line in the table needs
`root_readwrite` and a token that is not bound to an item; a test lists such operations.

Rule: the table is the only place that maps operations to scopes.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# The scopes that an application can have, with their texts on the authorize page.
APPLICATION = {
    "root_readonly": "Read all files and folders that you can see",
    "root_readwrite": "Read, change and delete all files and folders that you can see",
    "manage_managed_users": "Manage the users of the enterprise",
    "manage_app_users": "Manage the users of the application",
    "manage_groups": "Manage groups",
    "manage_webhook": "Manage webhooks",
    "manage_enterprise_properties": "Manage the enterprise's properties",
    "manage_data_retention": "Manage retention policies",
    "manage_legal_holds": "Manage legal holds",
    "enterprise_content": "Search and protect the content of all users of the enterprise",
    "sign_requests.readwrite": "Manage requests for signatures",
    "ai.readwrite": "Use the service's artificial intelligence",
    "manage_triggers": "Manage triggers",
}

# Scopes that a token can be downscoped to besides.
DOWNSCOPE = frozenset(
    {
        *("annotation_edit", "annotation_view_all", "annotation_view_self"),
        *("base_explorer", "base_picker", "base_preview", "base_sidebar", "base_upload"),
        *("item_delete", "item_download", "item_preview", "item_read", "item_rename", "item_share"),
        "item_upload",
    }
)

_CONTAINS: dict[str, tuple[str, ...]] = {
    "root_readwrite": (
        *("root_readonly", "annotation_edit", "base_upload"),
        *("item_delete", "item_rename", "item_share"),
    ),
    "root_readonly": (
        *("annotation_view_all", "base_explorer", "base_picker", "base_preview", "base_sidebar"),
        "item_download",
    ),
    "annotation_edit": ("annotation_view_self",),
    "annotation_view_all": ("annotation_view_self",),
    "base_explorer": ("item_read",),
    "base_picker": ("item_read",),
    "base_preview": ("item_preview",),
    "base_sidebar": ("item_read",),
    "base_upload": ("item_upload",),
    "item_download": ("item_read",),
    "item_preview": ("item_read",),
    "manage_legal_hold": ("manage_legal_holds",),  # both spellings are in use
}

KNOWN = frozenset(APPLICATION) | DOWNSCOPE | frozenset(_CONTAINS)


def split(text: str) -> list[str]:
    """Split a space-separated text into scopes, without duplicates."""
    return list(dict.fromkeys(text.split()))


def expand(granted: Iterable[str]) -> frozenset[str]:
    """Return these scopes and all that they imply."""
    found: set[str] = set()
    todo = list(granted)
    while todo:
        scope = todo.pop()
        if scope not in found:
            found.add(scope)
            todo += _CONTAINS.get(scope, ())
    return frozenset(found)


@functools.lru_cache(maxsize=256)  # called for every request, with few distinct arguments
def effective(application: str, granted: str | None) -> frozenset[str]:
    """Return a token's effective scopes: those granted that its application still has."""
    has = expand(application.split())
    return has if granted is None else has & expand(granted.split())


@dataclass(frozen=True, slots=True)
class Need:
    """The scopes that an operation requires: one of `one_of`, and all of `also`.

    `fields`: without any of `one_of`, the operation is still allowed if a scope allows each field of the JSON
    body.  `bound`: whether the operation respects the item that a token is bound to; `visitors`: whether
    visitors through a shared link, who have no account, may use it.
    """

    one_of: frozenset[str]
    also: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)
    bound: bool = False
    visitors: bool = False

    def is_met(self, scopes: frozenset[str]) -> bool:
        return self.also <= scopes and (not self.one_of or not self.one_of.isdisjoint(scopes))

    def is_met_by_fields(self, scopes: frozenset[str], names: Iterable[str]) -> bool:
        return all(self.fields.get(name) in scopes for name in names)


def _item(*one_of: str, **fields: str) -> Need:
    return Need(frozenset(one_of), fields=fields, bound=True)


def _open(*one_of: str) -> Need:
    return Need(frozenset(one_of), bound=True, visitors=True)


def _other(*one_of: str, also: str | None = None) -> Need:
    return Need(frozenset(one_of), also=frozenset({also} if also else ()))


UNLISTED = _other("root_readwrite")

_USERS = _other("manage_managed_users", "manage_app_users")
_HOLDS = _other("manage_legal_holds", also="enterprise_content")
_RETENTION = _other("manage_data_retention", also="enterprise_content")
_PROPERTIES = _other("manage_enterprise_properties")
_READ, _WRITE = _other("root_readonly"), _other("root_readwrite")

_TABLE: tuple[tuple[Need, str], ...] = (
    (_open(), "GET /users/me"),
    (
        _open("item_read"),
        "GET /files/{id} GET /folders/{id} GET /folders/{id}/items GET /web_links/{id}",
    ),
    (
        _item("item_read"),
        """
        GET /files/{id}/versions    GET /files/{id}/versions/{id}
        GET /files/{id}/metadata    GET /files/{id}/metadata/{scope}/{key}
        GET /folders/{id}/metadata  GET /folders/{id}/metadata/{scope}/{key}
        GET /files/{id}/watermark   GET /folders/{id}/watermark
        GET /files/{id}/comments    GET /comments/{id}          GET /files/{id}/tasks
        """,
    ),
    (_open("base_explorer", "base_picker"), "GET /search"),
    (_open("item_download"), "GET /files/{id}/content POST /zip_downloads"),
    (
        _open("item_preview", "item_download"),
        """
        GET /internal_files/{id}/versions/{id}/representations/{name}
        GET /internal_files/{id}/versions/{id}/representations/{name}/content
        GET /internal_files/{id}/versions/{id}/representations/{name}/content/{asset}
        GET /files/{id}/thumbnail.png    GET /files/{id}/thumbnail.jpg
        """,
    ),
    (
        _open("item_upload"),
        """
        POST /files/content                  OPTIONS /files/content
        POST /files/{id}/content             OPTIONS /files/{id}/content
        POST /files/upload_sessions          POST /files/{id}/upload_sessions
        GET /files/upload_sessions/{id}      PUT /files/upload_sessions/{id}
        DELETE /files/upload_sessions/{id}   GET /files/upload_sessions/{id}/parts
        POST /files/upload_sessions/{id}/commit
        POST /files/upload_sessions/{id}/plan  POST /files/upload_sessions/{id}/log
        POST /folders                        POST /web_links
        """,
    ),
    (
        _item("item_delete"),
        """
        DELETE /files/{id}  DELETE /folders/{id}  DELETE /web_links/{id}
        DELETE /files/{id}/versions/{id}
        """,
    ),
    (
        _item("root_readwrite", name="item_rename", shared_link="item_share"),
        "PUT /files/{id} PUT /folders/{id} PUT /web_links/{id}",
    ),
    (
        _item("root_readwrite"),
        """
        POST /files/{id}/copy              POST /folders/{id}/copy
        PUT /files/{id}/versions/{id}      POST /files/{id}/versions/current
        POST /files/{id}/metadata/{scope}/{key}    POST /folders/{id}/metadata/{scope}/{key}
        PUT /files/{id}/metadata/{scope}/{key}     PUT /folders/{id}/metadata/{scope}/{key}
        DELETE /files/{id}/metadata/{scope}/{key}  DELETE /folders/{id}/metadata/{scope}/{key}
        PUT /files/{id}/watermark          PUT /folders/{id}/watermark
        DELETE /files/{id}/watermark       DELETE /folders/{id}/watermark
        POST /comments                     PUT /comments/{id}  DELETE /comments/{id}
        """,
    ),
    (_item("root_readonly"), "GET /files/{id}/collaborations GET /folders/{id}/collaborations"),
    (
        _READ,
        """
        GET /folders/trash/items     GET /files/{id}/trash  GET /folders/{id}/trash
        GET /web_links/{id}/trash    GET /shared_items      GET /collaborations
        GET /collaborations/{id}     GET /events            OPTIONS /events
        GET /events/wait             GET /folder_locks       GET /collections
        GET /collections/{id}        GET /collections/{id}/items  GET /recent_items
        GET /metadata_cascade_policies         GET /metadata_cascade_policies/{id}
        GET /tasks/{id}              GET /tasks/{id}/assignments  GET /task_assignments/{id}
        POST /metadata_queries/execute_read
        GET /terms_of_services       GET /terms_of_services/{id}
        GET /terms_of_service_user_statuses
        """,
    ),
    (
        _WRITE,
        """
        POST /files/{id}            POST /folders/{id}            POST /web_links/{id}
        DELETE /files/{id}/trash    DELETE /folders/{id}/trash    DELETE /web_links/{id}/trash
        POST /collaborations        PUT /collaborations/{id}      DELETE /collaborations/{id}
        POST /folder_locks          DELETE /folder_locks/{id}
        POST /terms_of_service_user_statuses  PUT /terms_of_service_user_statuses/{id}
        POST /metadata_cascade_policies             DELETE /metadata_cascade_policies/{id}
        POST /metadata_cascade_policies/{id}/apply
        POST /tasks                 PUT /tasks/{id}               DELETE /tasks/{id}
        POST /task_assignments      PUT /task_assignments/{id}    DELETE /task_assignments/{id}
        """,
    ),
    (
        _USERS,
        """
        GET /users  POST /users  GET /users/{id}  PUT /users/{id}  DELETE /users/{id}
        POST /users/terminate_sessions           POST /invites  GET /invites/{id}
        GET /users/{id}/email_aliases            POST /users/{id}/email_aliases
        DELETE /users/{id}/email_aliases/{id}    POST /groups/terminate_sessions
        """,
    ),
    (_other("root_readonly", "manage_managed_users", "manage_app_users"), "GET /users/{id}/avatar"),
    (
        _other("root_readwrite", "manage_managed_users", "manage_app_users"),
        "POST /users/{id}/avatar DELETE /users/{id}/avatar",
    ),
    (_other("root_readwrite", also="manage_managed_users"), "PUT /users/{id}/folders/0"),
    (
        _other("manage_webhook"),
        """
        GET /webhooks       POST /webhooks        GET /webhooks/{id}
        PUT /webhooks/{id}  DELETE /webhooks/{id}
        """,
    ),
    (
        _other("manage_groups"),
        """
        GET /groups       POST /groups       GET /groups/{id}  PUT /groups/{id}  DELETE /groups/{id}
        GET /groups/{id}/memberships         GET /groups/{id}/collaborations
        GET /users/{id}/memberships          POST /group_memberships
        GET /group_memberships/{id}          PUT /group_memberships/{id}
        DELETE /group_memberships/{id}
        """,
    ),
    (
        _HOLDS,
        """
        GET /legal_hold_policies          POST /legal_hold_policies
        GET /legal_hold_policies/{id}     PUT /legal_hold_policies/{id}
        DELETE /legal_hold_policies/{id}  GET /legal_hold_policy_assignments
        POST /legal_hold_policy_assignments
        GET /legal_hold_policy_assignments/{id}
        DELETE /legal_hold_policy_assignments/{id}
        GET /legal_hold_policy_assignments/{id}/files_on_hold
        GET /legal_hold_policy_assignments/{id}/file_versions_on_hold
        GET /file_version_legal_holds     GET /file_version_legal_holds/{id}
        """,
    ),
    (
        _RETENTION,
        """
        GET /retention_policies          POST /retention_policies
        GET /retention_policies/{id}     PUT /retention_policies/{id}
        DELETE /retention_policies/{id}  GET /retention_policies/{id}/assignments
        POST /retention_policy_assignments
        GET /retention_policy_assignments/{id}
        DELETE /retention_policy_assignments/{id}
        GET /retention_policy_assignments/{id}/files_under_retention
        GET /retention_policy_assignments/{id}/file_versions_under_retention
        GET /file_version_retentions     GET /file_version_retentions/{id}
        """,
    ),
    (
        _other("root_readonly", "manage_enterprise_properties"),
        """
        GET /metadata_templates             GET /metadata_templates/{scope}
        GET /metadata_templates/{scope}/{key}/schema
        """,
    ),
    (
        _PROPERTIES,
        """
        POST /metadata_templates/schema     PUT /metadata_templates/{scope}/{key}/schema
        DELETE /metadata_templates/{scope}/{key}/schema
        POST /terms_of_services             PUT /terms_of_services/{id}
        GET /storage_policies               GET /storage_policies/{id}
        GET /storage_policy_assignments     POST /storage_policy_assignments
        GET /storage_policy_assignments/{id}       PUT /storage_policy_assignments/{id}
        DELETE /storage_policy_assignments/{id}    GET /enterprises/{id}/device_pinners
        GET /device_pinners/{id}            DELETE /device_pinners/{id}
        GET /collaboration_whitelist_exempt_targets
        POST /collaboration_whitelist_exempt_targets
        GET /collaboration_whitelist_exempt_targets/{id}
        DELETE /collaboration_whitelist_exempt_targets/{id}
        GET /collaboration_whitelist_entries       POST /collaboration_whitelist_entries
        GET /collaboration_whitelist_entries/{id}  DELETE /collaboration_whitelist_entries/{id}
        """,
    ),
)


def _lines() -> dict[tuple[str, ...], Need]:
    """Return the table by method and path segments; a variable segment is empty."""
    found = {}
    for need, text in _TABLE:
        words = text.split()
        for method, path in zip(words[::2], words[1::2], strict=True):
            found[_parts(method, path)] = need
    return found


def _parts(method: str, path: str) -> tuple[str, ...]:
    parts = path.strip("/").split("/")
    return (method, *("" if part.startswith("{") else part for part in parts))


_LINES = _lines()
_LONGEST = max(map(len, _LINES))


def find(method: str, path: str) -> Need | None:
    """Return the table's line for a request's path below the API root, or for a route's pattern."""
    parts = _parts("GET" if method == "HEAD" else method, path)
    return _find(parts, 1) if len(parts) <= _LONGEST else None


def _find(parts: tuple[str, ...], at: int) -> Need | None:
    # Literal segments before variable ones: routes are matched in the same order.
    if at == len(parts):
        return _LINES.get(parts)
    found = _find(parts, at + 1)
    if found is None and parts[at]:
        found = _find((*parts[:at], "", *parts[at + 1 :]), at + 1)
    return found
