"""Deviations of our service, our client and the public API's own clients from the public description.

`cmsfs/service/API.md` documents each of them with its reason; `tests/contract/test_public_api.py` compares
the two lists, and demonstrates each deviation with an exchange.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """A named deviation, and the lines of `public_api.problems` that it explains."""

    name: str
    lines: re.Pattern[str]

    def __init__(self, name: str, *lines: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "lines", re.compile("|".join(lines)))


_FURTHER = [
    r"(GET|PUT|POST) /web_links(/{})? 20[01].*\.permissions",
    r"POST /oauth2/token 413\.\w+",
    r"(POST|PUT|GET) .*collaborations.* 20[01].*\.can_view_path",
    r"GET /(files|folders)/{}/collaborations 200\.total_count",
    r"(POST|PUT|GET) .*memberships.* 20[01].*\.configurable_permissions",
    r"(POST|GET) /folder_locks 200.*\.created_by\.(name|login)",
    r"GET /collections/{}/items 200\.entries\[\]\.\w+",
    r"GET /retention_policies(/{}/assignments)? 200\.prev_marker",
    r"(POST|PUT|GET) /legal_hold_policies(/{})? 20[01].*\.is_ongoing",
    r"(POST|GET) /legal_hold_policy_assignments(/{})? 20[01].*\.policy_name",
    r"GET /users 200\.marker",
    r"(GET|PUT|POST) /users.* 20[01].*\.can_search_enterprise_content",
    r"(POST|GET|PUT) /metadata_templates/.* 20[01].*\.options\[\]\.staticConfig",
]

DEVIATIONS = [
    # Responses of the service.
    Deviation(
        "integer ids",
        r"\w+ /legal_hold_polic.* 20[01].*\.id: integer, not text",
        r"\w+ /retention_polic.* 20[01].*\.id: integer, not text",
    ),
    Deviation("`retention_length`", r"\w+ /retention_polic.*\.retention_length: integer, not text"),
    Deviation("preflight `conflicts`", r"OPTIONS /files/(\{}/)?content 409.*context_info.*"),
    Deviation("empty 401", r".* 401: no body"),
    Deviation("200 of a metadata instance", r"GET /(files|folders)/{}/metadata/{}/{} 200: no such status"),
    Deviation("206 of a download", r"GET /files/{}/content 206: no such status"),
    Deviation("`restricted_to.scope`", r"POST /oauth2/token 200\.restricted_to\[\]\.scope: .*"),
    Deviation("codes of errors", r".* [45]\d\d\.code: .* is none of .*"),
    Deviation("further fields", *(f"{one}: not a field" for one in _FURTHER)),
    # Requests of our own client.
    Deviation("`service_subject_type`", r"POST /oauth2/token <\.service_subject_type: not a field"),
    Deviation("`attributes` at commit", r"POST /files/upload_sessions/{}/commit <\.attributes: not a field"),
    Deviation(
        "`fields` at commit and of web links",
        r"POST /files/upload_sessions/{}/commit \?fields: not a parameter",
        r"\w+ /web_links(/{})? \?fields: not a parameter",
    ),
    Deviation(
        "the shared-link grant",
        r"POST /oauth2/token <\.grant_type: 'urn:cmsfs:oauth:grant-type:shared-link' is none of .*",
        r"POST /oauth2/token <\.shared_link(_password)?: not a field",
    ),
    Deviation("a version without `name`", r"POST /files/{}/content <\.attributes\.name: missing"),
    Deviation("`content_modified_at` of a file", r"PUT /files/{} <\.content_modified_at: not a field"),
    Deviation("null `expires_at`", r"PUT /collaborations/{} <\.expires_at: null"),
    # Requests of other clients.
    Deviation(
        "further attributes of an upload",
        r"POST /files/(\{}/)?content <\.attributes\.(size|parent|description): not a field",
        r"POST /files/{}/content <\.attributes\.content_created_at: not a field",
        r"POST /files/(\{}/)?content <\.attributes\.(name|content_\w+_at): null",
    ),
    Deviation(
        "`scope` with a number", r"POST /metadata_cascade_policies <\.scope: 'enterprise_\d+' is none of .*"
    ),
    Deviation("a lock without `type`", r"PUT /files/{} <\.lock\.type: missing"),
]


def named(line: str) -> str | None:
    """The deviation that explains a line."""
    return next((one.name for one in DEVIATIONS if one.lines.fullmatch(line)), None)


def untold(lines: list[str]) -> list[str]:
    """The lines that no deviation explains."""
    return [line for line in lines if named(line) is None]
