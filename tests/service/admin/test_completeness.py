"""Whatever the API lets an administrator do with the enterprise can be done on the pages.

Each operation of these groups is called by a page, or it is told here why not.
"""

import ast
import importlib
import pkgutil
from pathlib import Path

from cmsfs.service import admin
from cmsfs.service.api.operations import Operation
from cmsfs.service.server import app

GROUPS = (
    *("session_terminations", "users", "transfers", "email_aliases", "avatars", "invites"),
    *("terms_of_service", "terms_statuses", "storage_policies", "device_pinners", "webhooks", "groups"),
    *("memberships", "legal_holds", "legal_hold_assignments", "retention", "retention_assignments"),
    *("version_policies", "metadata_templates", "cascade_policies", "exemptions", "trash"),
    *("collaborations", "collaborations_allowlist"),
)
_LISTED = "the page shows it from the list"
_BY_ROW = "the page lists all of the enterprise's, from the database"
_OWN = "a person's own"
ELSEWHERE = {
    "GET /users/me": _OWN,
    "GET /users/{id}/avatar": "pages show no pictures of people",
    "POST /users/{id}/avatar": _OWN,
    "GET /invites/{id}": _BY_ROW,
    "GET /terms_of_services/{id}": _LISTED,
    "GET /storage_policies/{id}": _LISTED,
    "GET /storage_policy_assignments/{id}": _LISTED,
    "GET /enterprises/{id}/device_pinners": "there are none",
    "GET /device_pinners/{id}": "there are none",
    "DELETE /device_pinners/{id}": "there are none",
    "GET /webhooks": _BY_ROW,
    "GET /webhooks/{id}": _BY_ROW,
    "GET /group_memberships/{id}": _LISTED,
    "GET /legal_hold_policy_assignments/{id}": _LISTED,
    "GET /legal_hold_policy_assignments/{id}/files_on_hold": "the policy's page shows all",
    "GET /legal_hold_policy_assignments/{id}/file_versions_on_hold": "see above",
    "GET /retention_policy_assignments/{id}": _LISTED,
    "GET /retention_policy_assignments/{id}/files_under_retention": "the policy's page shows all",
    "GET /retention_policy_assignments/{id}/file_versions_under_retention": "see above",
    "GET /file_version_legal_holds/{id}": _LISTED,
    "GET /file_version_retentions/{id}": _LISTED,
    "GET /metadata_templates": "those that an item has instances of",
    "GET /metadata_templates/global": "nobody changes them",
    "GET /metadata_templates/{id}": _LISTED,
    "GET /metadata_cascade_policies": _BY_ROW,
    "GET /metadata_cascade_policies/{id}": _BY_ROW,
    "GET /collaboration_whitelist_exempt_targets/{id}": _LISTED,
    "GET /collaboration_whitelist_entries/{id}": _LISTED,
    "GET /collaborations": _OWN,
    "GET /collaborations/{id}": _BY_ROW,
    "GET /files/{id}/collaborations": _BY_ROW,
    "GET /folders/{id}/collaborations": _BY_ROW,
    "GET /folders/{id}/trash": _BY_ROW,
    "GET /files/{id}/trash": _BY_ROW,
    "GET /web_links/{id}/trash": _BY_ROW,
}
# What pages build of a kind or an action.
KINDS = ("file", "folder", "web_link")


def _texts() -> set[str]:
    """Every text in the pages' modules, with their constants filled in."""
    found: set[str] = set()
    for one in pkgutil.walk_packages(admin.__path__, f"{admin.__name__}."):
        module = importlib.import_module(one.name)
        assert module.__file__ is not None
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                for kind in KINDS:
                    values = {"kind": kind, "schema": "/metadata_templates/{scope}/{key}/schema"}
                    values |= {"line": "/metadata_cascade_policies/{id}"}
                    try:
                        code = compile(ast.Expression(node), module.__file__, "eval")
                        found.add(eval(code, dict(vars(module)), values))
                    except NameError:
                        break
    return found


def test_every_act_of_an_administrator_has_a_page() -> None:
    texts = _texts()
    lines = {
        one.line
        for group in app.API_GROUPS
        if group.name in GROUPS
        for one in group.routes
        if isinstance(one, Operation)
    }
    assert {group.name for group in app.API_GROUPS} >= set(GROUPS)
    assert lines - texts - ELSEWHERE.keys() == set()
    # And nothing is told to be elsewhere that has a page, or that is not there.
    assert ELSEWHERE.keys() & texts == set()
    assert ELSEWHERE.keys() - lines == set()
