"""Pages for automation: webhooks, and metadata cascade policies of folders.

Both belong to users and their applications; these pages list all of the enterprise's.  An administrator's
changes are made as the owner, as with the `as-user` header, and logged that way.

Rule: what belongs to somebody of another enterprise is shown but not changed.
"""

import json
from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.models.enterprise import webhooks as models_webhooks
from cmsfs.service.access import calls
from cmsfs.service.admin.desk import Desk, Mistake
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

PAGE = 50
_APPS = "SELECT client_id, name FROM app WHERE enterprise = ? ORDER BY name LIMIT 500"
# Nothing here is signed.
_TOLD = sorted(word for word in models_webhooks.ON_FOLDERS if not word.startswith("SIGN_REQUEST."))
_NOT_FOUND = "That does not exist, or belongs to a user of another enterprise."

_WEBHOOKS = """
  SELECT webhook.*, item.name AS item, app.name AS app_name, account.name AS user_name,
    account.enterprise = ?1 AS is_ours,
    (SELECT count(*) FROM webhook_delivery AS d WHERE d.app = webhook.app AND d.address = webhook.address)
      AS waiting,
    (SELECT max(attempts) FROM webhook_delivery AS d WHERE d.app = webhook.app
      AND d.address = webhook.address) AS attempts
  FROM webhook JOIN app ON app.client_id = webhook.app JOIN account ON account.id = webhook.created_by
    JOIN item ON item.id = webhook.target JOIN account AS owner ON owner.id = item.owner
  WHERE (account.enterprise = ?1 OR owner.enterprise = ?1) AND webhook.id > ?2 ORDER BY webhook.id LIMIT ?3
"""
_CASCADES = """
  SELECT p.*, item.name AS item, t.display_name, t.key, account.name AS user_name,
    (SELECT 1 FROM metadata_instance AS m WHERE m.item = p.folder AND m.template = p.template) AS has_values
  FROM cascade_policy AS p JOIN item ON item.id = p.folder JOIN account AS owner ON owner.id = item.owner
    JOIN metadata_template AS t ON t.id = p.template JOIN account ON account.id = p.created_by
  WHERE owner.enterprise = ?1 AND p.id > ?2 ORDER BY p.id LIMIT ?3
"""
# The most templates that the page of cascade policies offers; others need the API.
_TEMPLATES = (
    "SELECT key, display_name FROM metadata_template WHERE enterprise = ? ORDER BY display_name LIMIT 500"
)


async def webhooks(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    rows, following = await desk.rows(_WEBHOOKS, PAGE)
    entries = [_entry(row) | {"triggers": json.loads(row["triggers"])} for row in rows]
    return desk.page(
        "webhooks.html",
        form=form,
        mistake=mistake,
        entries=entries,
        next=following,
        apps=desk.store.read(_APPS, desk.enterprise),
        words=_TOLD,
    )


async def create_webhook(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Create a webhook of an application, for the owner of the item."""
    item, app = form.get("item", "").strip(), form.get("app", "")
    owner = desk.find_user("SELECT owner FROM item WHERE id = ?", calls.parse_id(item), not_found=_NOT_FOUND)
    if not desk.store.read("SELECT 1 FROM app WHERE client_id = ? AND enterprise = ?", app, desk.enterprise):
        raise Mistake(_NOT_FOUND)
    kind = desk.store.read("SELECT kind FROM item WHERE id = ?", calls.parse_id(item))[0]["kind"]
    body = {
        "target": {"type": KIND_NAMES[ItemKind(kind)], "id": item},
        "address": form.get("address", "").strip(),
        "triggers": _ticked(form),
    }
    await desk.ask_as(owner, "POST /webhooks", body=body, client_id=app)
    return desk.done("The webhook is there; it is signed with the keys of its application.")


async def change_webhook(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change what a webhook tells and to whom, or end it."""
    number, action = desk.request.path_params["id"], form.get("action", "")
    user = desk.find_user(
        "SELECT created_by FROM webhook WHERE id = ?", calls.parse_id(number), not_found=_NOT_FOUND
    )
    app = desk.store.read("SELECT app FROM webhook WHERE id = ?", calls.parse_id(number))[0]["app"]
    if action == "end":
        await desk.ask_as(user, "DELETE /webhooks/{id}", wire_id=number, client_id=app)
        return desk.done("The webhook has ended; queued deliveries are still sent.", to="/webhooks")
    body = {"address": form.get("address", "").strip(), "triggers": _ticked(form)}
    await desk.ask_as(user, "PUT /webhooks/{id}", wire_id=number, body=body, client_id=app)
    return desk.done("The webhook is changed.", to="/webhooks")


def _ticked(form: dict[str, str]) -> list[str]:
    return [name.removeprefix("on.") for name in form if name.startswith("on.")]


async def cascades(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    rows, following = await desk.rows(_CASCADES, PAGE)
    return desk.page(
        "cascades.html",
        form=form,
        mistake=mistake,
        entries=[_entry(row) for row in rows],
        templates=desk.store.read(_TEMPLATES, desk.enterprise),
        next=following,
    )


async def cascade(desk: Desk, form: dict[str, str]) -> responses.Response:
    folder = form.get("folder", "").strip()
    owner = desk.find_user(
        "SELECT owner FROM item WHERE id = ? AND kind = 0", calls.parse_id(folder), not_found=_NOT_FOUND
    )
    body = {"scope": "enterprise", "templateKey": form.get("template", ""), "folder_id": folder}
    await desk.ask_as(owner, "POST /metadata_cascade_policies", body=body)
    return desk.done("The folder's metadata now cascades to everything below.")


async def change_cascade(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Apply a policy again, or delete it."""
    wire_id, action = desk.request.path_params["id"], form.get("action", "")
    sql = "SELECT owner FROM item JOIN cascade_policy AS p ON p.folder = item.id WHERE p.uuid = ?"
    owner = desk.find_user(sql, wire_id, not_found=_NOT_FOUND)
    line = "/metadata_cascade_policies/{id}"
    if action == "end":
        await desk.ask_as(owner, f"DELETE {line}", wire_id=wire_id)
        return desk.done("The policy has ended; metadata that it set stays.", to="/cascades")
    how = "overwrite" if action == "overwrite" else "none"
    body = {"conflict_resolution": how}
    await desk.ask_as(owner, f"POST {line}/apply", wire_id=wire_id, body=body)
    return desk.done("The metadata was applied to everything below.", to="/cascades")


def _entry(row: Row) -> dict[str, Any]:
    return dict(row) | {"since": item_serializer.to_timestamp(row["created_at"])[:10]}
