"""Nothing that a client sends is a failure of ours: whatever comes, the answer is below 500."""

import json
import random
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cmsfs.service.server import app
from cmsfs.service.storage import store

METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"]
IDS = ["0", "1", "100005", "x", "-1", "9" * 30, "%00", "..", "é", "trash", "me", ""]
PATHS = [
    *(
        "/2.0/search",
        "/2.0/files/{id}",
        "/2.0/files/{id}/content",
        "/2.0/files/{id}/copy",
        "/2.0/files/content",
    ),
    *(
        "/2.0/files/{id}/versions",
        "/2.0/files/{id}/trash",
        "/2.0/folders",
        "/2.0/folders/{id}",
        "/oauth2/token",
    ),
    *("/2.0/folders/{id}/items", "/2.0/folders/{id}/trash", "/2.0/folders/trash/items", "/oauth2/revoke"),
    *("/2.0/users", "/2.0/legal_hold_policies", "/2.0/legal_hold_policies/{id}", "/2.0/retention_policies"),
    *("/2.0/legal_hold_policy_assignments", "/2.0/legal_hold_policy_assignments/{id}/files_on_hold"),
    *("/2.0/retention_policies/{id}", "/2.0/retention_policies/{id}/assignments"),
    *("/2.0/retention_policy_assignments", "/2.0/retention_policy_assignments/{id}"),
    *("/2.0/metadata_templates", "/2.0/metadata_templates/{id}", "/2.0/metadata_templates/schema"),
    *("/2.0/metadata_templates/enterprise/{id}/schema", "/2.0/files/{id}/metadata/enterprise/{id}"),
    *("/2.0/folders/{id}/metadata", "/2.0/collaboration_whitelist_exempt_targets"),
    "/2.0/collaboration_whitelist_exempt_targets/{id}",
    *("/2.0/internal_files/{id}/versions/{id}/representations/{id}", "/2.0/files/{id}/thumbnail.png"),
    "/2.0/internal_files/{id}/versions/{id}/representations/extracted_text/content/{id}",
    *("/2.0/files/{id}/watermark", "/2.0/folders/{id}/watermark", "/2.0/files/{id}/comments"),
    *("/2.0/comments", "/2.0/comments/{id}", "/preview/expiring_embed/{id}"),
    *("/2.0/web_links", "/2.0/web_links/{id}", "/2.0/web_links/{id}/trash", "/2.0/users/{id}", "/{id}", "//"),
]
PARAMS = [
    *("query", "type", "limit", "offset", "marker", "usemarker", "sort", "direction", "fields", "recursive"),
    *("created_at_range", "size_range", "ancestor_folder_ids", "owner_user_ids", "mdfilters", "version"),
    *("filter_term", "user_type", "external_app_user_id", "policy_name", "policy_id", "force"),
    *("min_height", "max_width", "set_content_disposition_type", "set_content_disposition_filename", "token"),
    *("trash_content", "content_types", "file_extensions", "scope", "deleted_at_range"),
]
SHAPES = ["representations", "expiring_embed_link,watermark_info,comment_count", "classification,tags,lock"]
rubbish = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["0", "-1", "1e400", "nan", "true", ",", "a,b", "9" * 40, '"', "\0", "trashed_only", "*"]
    ),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | rubbish,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(rubbish, inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    *("name", "parent", "id", "description", "tags", "content_modified_at", "url", "size", "version"),
    *("login", "space_amount", "policy_name", "filter_started_at", "filter_ended_at", "retention_length"),
    *("message", "tagged_message", "item", "watermark", "imprint", "sync_state"),
    *("policy_id", "assign_to", "scope", "displayName", "fields", "user", "op", "path", "enterprise"),
]
bodies = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), values | st.fixed_dictionaries({"id": rubbish})).map(
        lambda body: json.dumps(body).encode()
    ),
    st.binary(max_size=50),
)
queries = st.dictionaries(st.sampled_from(PARAMS), rubbish | st.sampled_from(SHAPES), max_size=4)
headers = st.dictionaries(
    st.sampled_from(
        [
            *("range", "if-match", "if-none-match", "content-type", "content-md5", "as-user", "box-version"),
            "x-rep-hints",
        ]
    ),
    st.sampled_from(
        ["bytes=0-5", "bytes=-", "0", "*", "multipart/form-data; boundary=x", "application/json", "2024.0"]
    )
    | st.sampled_from(["[jpg?dimensions=32x32]", "[[,][?=&][jpg,png?dimensions]"])
    | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=10),
    max_size=3,
)


async def ask(application, method, path, query, sent, body):
    """The status of the answer, through the bare interface: no client library in between to object."""
    given_body = [{"type": "http.request", "body": body, "more_body": False}]
    statuses = []

    async def receive():
        return given_body.pop() if given_body else {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": query,
        "headers": sent,
        "scheme": "http",
        "server": ("x", 80),
        "asgi": {"spec_version": "2.4", "version": "3.0"},
    }
    await application(scope, receive, send)
    assert len(statuses) == 1
    return statuses[0]


@pytest.mark.parametrize("round_", range(4))
async def test_nothing_that_is_sent_makes_a_5xx(api, service: store.Store, round_):
    await api.upload("a.txt", b"hello")
    folder = await api.folder("docs")
    trashed = await api.upload("b.txt", b"", folder["id"])
    await api.ask("DELETE", f"/files/{trashed['id']}", expect=204)
    parts = []

    @settings(max_examples=125, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.tuples(queries, headers, bodies))
    def collect(case):
        parts.append(case)

    collect()
    application = app.build(service)
    token = api.http.headers["authorization"].encode()
    wire_ids = [*IDS, folder["id"], trashed["id"]]
    for _ in range(500):
        # Each part goes to several places, beside others: it takes longer to think it up than to answer it.
        method, path, wire_id = random.choice(METHODS), random.choice(PATHS), random.choice(wire_ids)
        params, more, body = (random.choice(parts)[place] for place in range(3))
        query = "&".join(f"{name}={quote(value)}" for name, value in params.items()).encode()
        sent = [(name.encode(), value.encode("latin-1")) for name, value in more.items()]
        sent.append((b"authorization", token))
        status = await ask(application, method, path.replace("{id}", wire_id), query, sent, body)
        assert status < 500, (method, path, wire_id, params, more, body)
