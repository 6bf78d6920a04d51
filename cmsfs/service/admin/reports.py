"""Reports of an enterprise for spreadsheets, as CSV: users, collaborations, links, events, trash, usage.

Rule: no cell begins like a formula, whatever a file is called (CSV injection).
"""

import csv
import io
from collections.abc import Iterable
from typing import Any

from starlette import responses

from cmsfs.service.admin.desk import Desk
from cmsfs.service.serialize import item_serializer

# About the most rows that a spreadsheet can hold.
_MAX_ROWS = 1_000_000

_REPORTS = {
    "users": (
        "SELECT id, name, login, role, status, space_used, space_amount, created_at FROM account"
        " WHERE enterprise = ? ORDER BY id LIMIT ?"
    ),
    "collaborations": (
        "SELECT c.id, item.id AS item, item.name AS name, owner.login AS owner, other.login AS collaborator,"
        " c.role, c.status, c.created_at FROM collaboration AS c JOIN item ON item.id = c.item"
        " JOIN account AS owner ON owner.id = item.owner LEFT JOIN account AS other ON other.id = c.account"
        " WHERE owner.enterprise = ? ORDER BY c.id LIMIT ?"
    ),
    "usage": (
        "SELECT hour * 3600000000 AS began_at, requests, space_used FROM usage"
        " WHERE enterprise = ? ORDER BY hour LIMIT ?"
    ),
    "links": (
        "SELECT item.id, item.name, owner.login AS owner, item.link_terms ->> 'access' AS access,"
        " CAST(item.link_terms ->> 'ends' AS BIGINT) AS ends_at FROM item INDEXED BY item_link"
        " JOIN account AS owner ON owner.id = item.owner"
        " WHERE item.link IS NOT NULL AND item.status = 0 AND owner.enterprise = ? ORDER BY item.id LIMIT ?"
    ),
    "events": (
        "SELECT event.id, event.created_at, event.type, account.login AS made_by, event.source, event.details"
        " FROM admin_event AS event LEFT JOIN account ON account.id = event.created_by"
        " WHERE event.enterprise = ? ORDER BY event.id DESC LIMIT ?"
    ),
    "trash": (
        "SELECT item.id, item.name, item.size, owner.login AS owner, item.trashed_at FROM item"
        " JOIN account AS owner ON owner.id = item.owner"
        " WHERE item.status = 1 AND owner.enterprise = ? ORDER BY item.owner, item.trashed_at LIMIT ?"
    ),
}


async def send(desk: Desk) -> responses.Response:
    name = desk.request.path_params["report"]
    if name not in _REPORTS:
        return desk.done("There is no such report.", failed=True, to="/users")
    sql, enterprise = _REPORTS[name], desk.enterprise
    text = await desk.store.query(lambda read: _table(read(sql, enterprise, _MAX_ROWS)))
    headers = {
        "Content-Disposition": f"attachment; filename={name}.csv",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return responses.Response(text, 200, headers, media_type="text/csv")


def _table(rows: Iterable[Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    for at, row in enumerate(rows):
        if at == 0:
            writer.writerow(row.keys())
        writer.writerow([_cell(name, row[name]) for name in row.keys()])  # noqa: SIM118
    return out.getvalue()


def _cell(name: str, value: Any) -> Any:
    if name.endswith("_at") and value is not None:
        return item_serializer.to_timestamp(int(value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
