"""The page of invitations: users of other enterprises who are invited to this one.

An invitation is pending until the operator of the service has moved the user.
"""

from starlette import responses

from cmsfs.service.admin.desk import Desk
from cmsfs.service.serialize import item_serializer

PAGE = 50

_INVITES = """
  SELECT invite.*, account.name, account.login, by_user.name AS inviter,
    account.enterprise = ?1 AS is_accepted
  FROM invite JOIN account ON account.id = invite.account
    JOIN account AS by_user ON by_user.id = invite.invited_by
  WHERE invite.enterprise = ?1 AND invite.id > ?2 ORDER BY invite.id LIMIT ?3
"""


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    rows, following = await desk.rows(_INVITES, PAGE)
    entries = [dict(row) | {"since": item_serializer.to_timestamp(row["created_at"])[:10]} for row in rows]
    return desk.page("invitations.html", form=form, mistake=mistake, entries=entries, next=following)


async def invite(desk: Desk, form: dict[str, str]) -> responses.Response:
    body = {
        "enterprise": {"id": str(desk.enterprise)},
        "actionable_by": {"login": form.get("login", "").strip()},
    }
    made = await desk.ask("POST /invites", body=body)
    return desk.done(f"{made['actionable_by']['name']} is invited.")
