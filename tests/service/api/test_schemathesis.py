"""The served service against its own description: schemathesis asks what the description allows, and more.

It runs as its users run it, from its command line, with a token of an administrator who may do everything.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from cmsfs.service.provisioning import demo
from cmsfs.service.server import serve
from cmsfs.service.storage import store

# What a run may take altogether.
SECONDS = 150

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)

# Ids that lead somewhere: with made-up ones every answer is 404.
KINDS = {
    "files": "SELECT id FROM item WHERE kind = 1",
    "folders": "SELECT id FROM item WHERE kind = 0 UNION ALL SELECT 0",
    "web_links": "SELECT id FROM item WHERE kind = 2",
    "users": "SELECT id FROM account",
    "internal_files": "SELECT id FROM item WHERE kind = 1",
    "representations": "SELECT 'extracted_text' AS id UNION ALL SELECT 'jpg_thumb_320x320'",
    "collaborations": "SELECT id FROM collaboration",
    "collaboration_whitelist_entries": "SELECT id FROM allowlist",
    "versions": "SELECT id FROM version",
    "legal_hold_policies": "SELECT id FROM legal_hold_policy",
    "legal_hold_policy_assignments": "SELECT id FROM legal_hold_assignment",
    "retention_policies": "SELECT id FROM retention_policy",
    "retention_policy_assignments": "SELECT id FROM retention_assignment",
    "collaboration_whitelist_exempt_targets": "SELECT id FROM exemption",
    "metadata": "SELECT 'global' AS id UNION ALL SELECT 'enterprise'",
    "metadata_templates": "SELECT 'enterprise' AS id",
    "metadata_templates/{id}": "SELECT uuid AS id FROM metadata_template",
    "{scope}": "SELECT key AS id FROM metadata_template",
}


def prepared(described: dict[str, Any], opened: store.Store) -> dict[str, Any]:
    """The description with ids that exist, and without the headers that would end every request at once."""
    for path, methods in described["paths"].items():
        parts = path.split("/")
        for one in methods.values():
            one["parameters"] = [known for known in one["parameters"] if "$ref" not in known]
            for parameter in one["parameters"]:
                if parameter["in"] == "path":
                    name = f"{{{parameter['name']}}}"
                    before = parts[parts.index(name) - 1]
                    sql = KINDS.get(f"{before}/{name}") or KINDS.get(before)
                    if sql and (known := [str(row["id"]) for row in opened.read(sql)]):
                        parameter["schema"] = {"type": "string", "enum": known}
    return described


@pytest.mark.long
@pytest.mark.timeout(SECONDS * 3)
async def test_no_answer_is_a_failure_or_a_surprise(tmp_path, nursery):
    async with store.open_store(tmp_path / "data") as opened:
        credentials = await demo.ensure_sample(opened)
        url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "box_subject_type": "user",
            "box_subject_id": credentials.user_id,
        }
        async with httpx.AsyncClient() as http:
            token = (await http.post(f"{url}/oauth2/token", data=form)).json()["access_token"]
            described = (await http.get(f"{url}/openapi.json")).json()
        schema = tmp_path / "openapi.json"
        schema.write_text(json.dumps(prepared(described, opened)), encoding="utf-8")
        command = [
            *(Path(sys.executable).parent / "schemathesis", "run", schema, "--url", url),
            *("--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS)),
            *("--max-time", str(SECONDS), "--request-timeout", "30", "--continue-on-failure"),
            # The long poll waits, as it should; deleting people would end the others' ids.
            *("--exclude-operation-id", "get_events_wait", "--exclude-operation-id", "delete_users_id"),
            *("--generation-database", "none", "--warnings", "off", "--no-color"),
            *("--report", "ndjson", "--report-ndjson-path", tmp_path / "report.ndjson"),
        ]
        done = await trio.run_process(
            [str(word) for word in command],
            cwd=tmp_path,
            check=False,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
        )
        said = done.stdout.decode()
        nursery.cancel_scope.cancel()
    assert done.returncode == 0, said[-20_000:]
    # It got somewhere: answers of every kind, not refusals alone.
    statuses = Counter(re.findall(r'"status_code":(\d+)', (tmp_path / "report.ndjson").read_text("utf-8")))
    assert statuses.total() > 1000, statuses
    assert {"200", "201", "204", "400", "404", "409"} <= statuses.keys(), statuses
