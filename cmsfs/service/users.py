"""Users: who I am, and one user by id.

`me` is anyone's to ask; another user needs the right to look users up in the enterprise.

Rule: `space_used` is real: the bytes of every version of every file that the user owns.
"""

import json
from sqlite3 import Row
from typing import Any

from starlette import responses, routing

from cmsfs.service import access, fields, problems

_STANDARD = (
    *("id", "name", "login", "created_at", "modified_at", "language", "timezone", "space_amount"),
    *("space_used", "max_upload_size", "status", "job_title", "phone", "address", "avatar_url"),
    "notification_email",
)
_MINI = ("id", "name", "login")


async def me(call: access.Call) -> responses.Response:
    return access.answer(user(call, call.caller.id))


async def get(call: access.Call) -> responses.Response:
    number = call.caller.id if call.id == "me" else access.parse_id(call.id)
    if number != call.caller.id and call.caller.role == "user":
        raise problems.Refused(403, "forbidden", "Looking users up needs an administrator.")
    return access.answer(user(call, number))


def user(call: access.Call, number: int | None) -> dict[str, Any]:
    """A user of the caller's enterprise; 404 if there is none with this id."""
    read = call.store.read
    found = read("SELECT * FROM user WHERE id = ? AND enterprise = ?", number, call.caller.enterprise)
    if not found:
        raise problems.not_found("user", str(number or ""))
    enterprise = read("SELECT * FROM enterprise WHERE id = ?", call.caller.enterprise)[0]
    whole = _whole(found[0], enterprise)
    wanted = _STANDARD if call.fields is None else (*_MINI, *call.fields)
    return {"type": "user"} | {name: whole[name] for name in wanted if name in whole}


def _whole(row: Row, enterprise: Row) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "language": "en",
        "timezone": "Etc/UTC",
        "job_title": "",
        "phone": "",
        "address": "",
        "avatar_url": "",
        "notification_email": None,
        "hostname": "",
        "tracking_codes": [],
        "can_see_managed_users": True,
        "is_sync_enabled": True,
        "is_external_collab_restricted": False,
        "is_exempt_from_device_limits": False,
        "is_exempt_from_login_verification": False,
        "is_platform_access_only": row["login"] is None,
        "my_tags": [],
        "external_app_user_id": None,
    }
    whole |= json.loads(row["details"])
    for name in ("name", "role", "status", "space_amount", "space_used", "max_upload_size"):
        whole[name] = row[name]
    return whole | {
        "id": str(row["id"]),
        "login": row["login"] or "",
        "created_at": fields.moment(row["created_at"]),
        "modified_at": fields.moment(row["modified_at"]),
        "enterprise": {"type": "enterprise", "id": str(enterprise["id"]), "name": enterprise["name"]},
    }


routes = [
    routing.Route("/users/me", access.guarded(me), methods=["GET"]),
    routing.Route("/users/{id}", access.guarded(get), methods=["GET"]),
]
