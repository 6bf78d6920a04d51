"""The operations of the public API that this service does not offer.

Each is answered with 404 and the code `not_offered`, not with a 5xx error, which clients retry for minutes.
`/docs` lists them.

Rule: an operation of the public API is either offered or listed here
(`tests/service/server/test_not_offered.py`).
"""

from cmsfs.service import problems

CODE = "not_offered"

# Methods and paths by topic; a part in braces matches anything.
_FAMILIES = {
    "Questions to a language model": """
        POST /ai/ask  POST /ai/extract  POST /ai/extract_structured  POST /ai/text_gen
        GET /ai_agent_default  GET /ai_agents  POST /ai_agents  DELETE /ai_agents/{id}
        GET /ai_agents/{id}  PUT /ai_agents/{id}
    """,
    "Archives": """
        GET /archives  POST /archives  DELETE /archives/{id}  PUT /archives/{id}
    """,
    "App items": """
        GET /files/{id}/app_item_associations  GET /folders/{id}/app_item_associations
    """,
    "Workflows": """
        GET /automate_workflows  POST /automate_workflows/{id}/start  GET /workflows
        POST /workflows/{id}/start
    """,
    "Documents made of templates": """
        GET /docgen_batch_jobs/{id}  POST /docgen_batches  GET /docgen_jobs  GET /docgen_jobs/{id}
        GET /docgen_template_jobs/{id}  GET /docgen_templates  POST /docgen_templates
        DELETE /docgen_templates/{id}  GET /docgen_templates/{id}  GET /docgen_templates/{id}/tags
        POST /notes/convert
    """,
    "Settings of the enterprise, and its external users": """
        GET /enterprise_configurations/{id}  POST /external_users/submit_delete_job
    """,
    "Requests for files": """
        DELETE /file_requests/{id}  GET /file_requests/{id}  PUT /file_requests/{id}
        POST /file_requests/{id}/copy
    """,
    "Hubs": """
        GET /enterprise_hubs  GET /hub_collaborations  POST /hub_collaborations
        DELETE /hub_collaborations/{id}  GET /hub_collaborations/{id}  PUT /hub_collaborations/{id}
        GET /hub_document_blocks  GET /hub_document_pages  GET /hub_items  GET /hubs  POST /hubs
        DELETE /hubs/{id}  GET /hubs/{id}  PUT /hubs/{id}  POST /hubs/{id}/copy
        POST /hubs/{id}/manage_items
    """,
    "Integrations": """
        GET /integration_mappings/slack  POST /integration_mappings/slack
        DELETE /integration_mappings/slack/{id}  PUT /integration_mappings/slack/{id}
        GET /integration_mappings/teams  POST /integration_mappings/teams
        DELETE /integration_mappings/teams/{id}  PUT /integration_mappings/teams/{id}
    """,
    "Taxonomies": """
        POST /metadata_taxonomies  GET /metadata_taxonomies/{id}  DELETE /metadata_taxonomies/{id}/{id}
        GET /metadata_taxonomies/{id}/{id}  PATCH /metadata_taxonomies/{id}/{id}
        POST /metadata_taxonomies/{id}/{id}/levels  PATCH /metadata_taxonomies/{id}/{id}/levels/{id}
        POST /metadata_taxonomies/{id}/{id}/levels:append
        POST /metadata_taxonomies/{id}/{id}/levels:trim  GET /metadata_taxonomies/{id}/{id}/nodes
        POST /metadata_taxonomies/{id}/{id}/nodes  DELETE /metadata_taxonomies/{id}/{id}/nodes/{id}
        GET /metadata_taxonomies/{id}/{id}/nodes/{id}  PATCH /metadata_taxonomies/{id}/{id}/nodes/{id}
        GET /metadata_templates/{id}/{id}/fields/{id}/options
    """,
    "Queries over all content": """
        POST /query  POST /query_insights
    """,
    "Information barriers and lists": """
        GET /shield_information_barrier_reports  POST /shield_information_barrier_reports
        GET /shield_information_barrier_reports/{id}  GET /shield_information_barrier_segment_members
        POST /shield_information_barrier_segment_members
        DELETE /shield_information_barrier_segment_members/{id}
        GET /shield_information_barrier_segment_members/{id}
        GET /shield_information_barrier_segment_restrictions
        POST /shield_information_barrier_segment_restrictions
        DELETE /shield_information_barrier_segment_restrictions/{id}
        GET /shield_information_barrier_segment_restrictions/{id}
        GET /shield_information_barrier_segments  POST /shield_information_barrier_segments
        DELETE /shield_information_barrier_segments/{id}  GET /shield_information_barrier_segments/{id}
        PUT /shield_information_barrier_segments/{id}  GET /shield_information_barriers
        POST /shield_information_barriers  POST /shield_information_barriers/change_status
        GET /shield_information_barriers/{id}  GET /shield_lists  POST /shield_lists
        DELETE /shield_lists/{id}  GET /shield_lists/{id}  PUT /shield_lists/{id}
    """,
    "Requests for signatures": """
        GET /sign_requests  POST /sign_requests  GET /sign_requests/{id}  POST /sign_requests/{id}/cancel
        POST /sign_requests/{id}/resend  GET /sign_templates  GET /sign_templates/{id}
    """,
    "Skills": """
        PUT /skill_invocations/{id}
    """,
}


def _pairs(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return list(zip(words[::2], words[1::2], strict=True))


FAMILIES: dict[str, list[tuple[str, str]]] = {name: _pairs(text) for name, text in _FAMILIES.items()}


def _path_parts(path: str) -> tuple[str, ...]:
    return tuple("" if part.startswith("{") else part for part in path.strip("/").split("/"))


# Indexed by the number of path parts and the first part, which is never a variable.
_BY_SHAPE: dict[tuple[int, str], list[tuple[str, tuple[str, ...]]]] = {}
for _lines in FAMILIES.values():
    for _method, _path in _lines:
        _known = _path_parts(_path)
        _BY_SHAPE.setdefault((len(_known), _known[0]), []).append((_method, _known))


def refusal(method: str, path: str) -> problems.Refused | None:
    """The refusal for a request without a route, given its path below the API's root.

    None if it is not an operation of the public API.
    """
    parts = tuple(path.strip("/").split("/"))
    for known_method, known in _BY_SHAPE.get((len(parts), parts[0]), ()):
        if known_method == method and all(
            not one or one == part for one, part in zip(known, parts, strict=True)
        ):
            message = f"This service does not offer {method} {path}; /docs lists what it offers and what not."
            return problems.Refused(404, CODE, message)
    return None
