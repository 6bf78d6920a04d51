"""Overview pages: figures of the enterprise, and the trash.

Counts stop at a cap and lists are paged, so that the cost of a page does not depend on the amount of data.

Rule: only the trash can be changed here.
"""

import shutil
from typing import Any

from starlette import responses

from cmsfs.service.access import calls
from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin import event_log, usage, usage_plots
from cmsfs.service.admin.desk import Desk
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

# Upper limit of counts: with a million items the page takes 30 ms, without the cap 220 ms.
CAP = 100_000
PAGE = 50

_OWNERS = "SELECT id FROM account WHERE enterprise = ?"
_ITEMS = f"SELECT 1 FROM item INDEXED BY item_created WHERE owner IN ({_OWNERS}) AND status = 0"
_FOLDERS = (
    f"SELECT 1 FROM item INDEXED BY folder_modified WHERE owner IN ({_OWNERS}) AND status = 0 AND kind = 0"
)
_TRASH = f"SELECT 1 FROM item INDEXED BY item_trashed WHERE owner IN ({_OWNERS}) AND status = 1"
_HOLDS = "SELECT 1 FROM legal_hold_policy WHERE enterprise = ? AND deleted_at IS NULL"
_RETENTION = "SELECT 1 FROM retention_policy WHERE enterprise = ? AND retired_at IS NULL"

# In index order: by owner, the longest in the trash first.
_TRASHED = """
  SELECT item.*, owner.name AS owner_name, remover.name AS remover_name
  FROM item INDEXED BY item_trashed JOIN account AS owner ON owner.id = item.owner
    LEFT JOIN account AS remover ON remover.id = item.trashed_by
  WHERE item.status = 1 AND owner.enterprise = ? AND (item.owner, item.trashed_at, item.id) > (?, ?, ?)
  ORDER BY item.owner, item.trashed_at, item.id LIMIT ?
"""


async def show(desk: Desk) -> responses.Response:
    disk = shutil.disk_usage(desk.store.root)
    hour = usage.hour_of(desk.store.now())
    found = await desk.store.query(
        lambda read: (
            _figures(read, desk.enterprise)
            | {
                "requests": usage_plots.of_requests(read, desk.enterprise, hour),
                "stored": usage_plots.of_stored(read, desk.enterprise, hour),
            }
        )
    )
    return desk.page("overview.html", **found, free=disk.free)


def _figures(read: store.Read, enterprise: int) -> dict[str, Any]:
    def count(sql: str, *args: Any) -> str:
        number: int = read(f"SELECT count(*) AS n FROM ({sql} LIMIT ?) AS found", *args, CAP + 1)[0]["n"]
        return f"more than {CAP:,}" if number > CAP else f"{number:,}"

    stored = "SELECT coalesce(sum(space_used), 0) AS used FROM account WHERE enterprise = ?"
    return {
        "enterprise": read("SELECT * FROM enterprise WHERE id = ?", enterprise)[0],
        "users": count("SELECT 1 FROM account WHERE enterprise = ?", enterprise),
        "apps": count("SELECT 1 FROM app WHERE enterprise = ?", enterprise),
        "items": count(_ITEMS, enterprise),
        "folders": count(_FOLDERS, enterprise),
        "used": read(stored, enterprise)[0]["used"],
        "trash": count(_TRASH, enterprise),
        "holds": count(_HOLDS, enterprise),
        "retention": count(_RETENTION, enterprise),
        "templates": count("SELECT 1 FROM metadata_template WHERE enterprise = ?", enterprise),
        "events": event_log.latest(read, enterprise, limit=10)[0],
    }


async def trash(desk: Desk) -> responses.Response:
    numbers = [calls.parse_id(part) for part in desk.marker.split("-")]
    after = tuple(numbers) if len(numbers) == 3 and None not in numbers else (0, 0, 0)
    rows = await desk.store.query(lambda read: read(_TRASHED, desk.enterprise, *after, PAGE + 1))
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    marker = "-".join(str(last[name]) for name in ("owner", "trashed_at", "id")) if last else ""
    entries = [
        {
            "name": row["name"],
            "kind": KIND_NAMES[ItemKind(row["kind"])].replace("_", " "),
            "id": row["id"],
            "wire": f"{KIND_NAMES[ItemKind(row['kind'])]}-{row['id']}",
            "size": row["size"],
            "owner": row["owner_name"],
            "by": row["remover_name"] or "",
            "at": event_log.format_time(row["trashed_at"]),
        }
        for row in rows[:PAGE]
    ]
    return desk.page("trash.html", entries=entries, next=marker)


async def change_trash(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Restore or permanently delete anybody's item: as its owner, and logged that way."""
    kind, _, wire_id = desk.request.path_params["item"].partition("-")
    not_found = "That is not in the trash."
    if kind not in KIND_NAMES.values():
        raise service_desk.Mistake(not_found)
    owner = desk.find_user(
        "SELECT owner FROM item WHERE id = ?", calls.parse_id(wire_id), not_found=not_found
    )
    if form.get("action") == "restore":
        made = await desk.ask_as(owner, f"POST /{kind}s/{{id}}", wire_id=wire_id, body={})
        return desk.done(f"{made['name']} is back.", to="/trash")
    if form.get("action") == "purge":
        await desk.ask_as(owner, f"DELETE /{kind}s/{{id}}/trash", wire_id=wire_id)
        return desk.done("It is gone for good.", to="/trash")
    raise service_desk.Mistake("Choose what to do.")
