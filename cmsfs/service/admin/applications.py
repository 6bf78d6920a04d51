"""Applications and credentials: list, register, issue new secrets.

A secret is shown once, when it is created: only its hash is stored.

Rule: applications can act for everybody, administrators included, so co-administrators may not register any.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

import pydantic
from starlette import responses

from cmsfs import errors
from cmsfs.models.enterprise import apps
from cmsfs.runtime import chance
from cmsfs.service.access import calls, scopes
from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk
from cmsfs.service.oauth import clients
from cmsfs.service.users import users

PAGE = 50

_GRANTS = {
    "authorization_code": "A person logs in and consents (authorization code)",
    "client_credentials": "The application's own secret is enough (client credentials)",
    "jwt_bearer": "The application signs with a key (JWT)",
}
_APPS = """
  SELECT app.*, account.name AS service_name,
    (SELECT count(*) FROM app_key WHERE app_key.app = app.client_id) AS keys
  FROM app JOIN account ON account.id = app.service_user
  WHERE app.enterprise = ? AND client_id > ? ORDER BY client_id LIMIT ?
"""


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    rows = desk.store.read(_APPS, desk.enterprise, desk.marker, PAGE + 1)
    return desk.page(
        "apps.html",
        form=form,
        mistake=mistake,
        entries=[_entry(row) for row in rows[:PAGE]],
        next=rows[PAGE - 1]["client_id"] if len(rows) > PAGE else "",
        grants=_GRANTS,
        scopes=scopes.APPLICATION,
    )


def _entry(row: Row) -> dict[str, Any]:
    entry = {name: row[name] for name in ("client_id", "name", "service_name", "keys")}
    return entry | {
        "scopes": row["scopes"].split(),
        "grants": [one.replace("_", " ") for one in row["grants"].split()],
        "redirect_uris": json.loads(row["redirect_uris"]),
    }


async def create(desk: Desk, form: dict[str, str]) -> responses.Response:
    _require_admin(desk)
    pem = form.get("public_key", "").strip()
    try:
        wish = apps.NewApp(
            name=form.get("name", "").strip(),
            grants=_ticked(form, "grant."),
            scopes=_ticked(form, "scope."),
            redirect_uris=form.get("redirect_uris", "").split(),
        )
    except pydantic.ValidationError as error:
        raise service_desk.Mistake(service_desk.message_of(error)) from None
    client_id, secret, kid = chance.token_hex(16), chance.token_urlsafe(32), chance.token_hex(4)

    def txn(conn: Connection) -> None:
        now = desk.store.now()
        service = users.insert(conn, desk.enterprise, wish.name[:50], None, now=now)
        clients.add(
            conn,
            client_id,
            secret,
            name=wish.name,
            enterprise=desk.enterprise,
            service_user=service["id"],
            scopes=" ".join(wish.scopes),
            grants=" ".join(wish.grants),
            redirect_uris=tuple(wish.redirect_uris),
        )
        if pem:
            clients.add_key(conn, client_id, kid, pem)

    try:
        await desk.store.write(txn)
    except errors.UserError as error:
        raise service_desk.Mistake(str(error)) from None
    shown = {"Client ID": client_id, "Client secret": secret} | ({"Key ID": kid} if pem else {})
    return desk.done(f"{wish.name} is registered.", secrets=shown)


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change scopes, grants and redirect URIs; or delete an application with its tokens and webhooks."""
    _require_admin(desk)
    client_id = desk.request.path_params["id"]
    found = desk.store.read(
        "SELECT * FROM app WHERE client_id = ? AND enterprise = ?", client_id, desk.enterprise
    )
    if not found:
        raise service_desk.Mistake("There is no such application.")
    name = found[0]["name"]
    if form.get("action") == "remove":
        if form.get("confirm", "").strip() != name:
            raise service_desk.Mistake("To remove the application, type its exact name.")
        await desk.store.write(lambda conn: conn.execute("DELETE FROM app WHERE client_id = ?", (client_id,)))
        return desk.done(f"{name} is removed; its tokens no longer work.", to="/apps")
    try:
        wish = apps.NewApp(
            name=name,
            grants=_ticked(form, "grant."),
            scopes=_ticked(form, "scope."),
            redirect_uris=form.get("redirect_uris", "").split(),
        )
    except pydantic.ValidationError as error:
        raise service_desk.Mistake(service_desk.message_of(error)) from None
    values = (" ".join(wish.grants), " ".join(wish.scopes), json.dumps(wish.redirect_uris), client_id)
    sql = "UPDATE app SET grants = ?, scopes = ?, redirect_uris = ? WHERE client_id = ?"
    await desk.store.write(lambda conn: conn.execute(sql, values))
    return desk.done(f"{name} is changed; its tokens are limited to the new scopes.", to="/apps")


async def renew_secret(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Replace the secret; the old one stops working at once, issued tokens stay valid."""
    _require_admin(desk)
    client_id, secret = desk.request.path_params["id"], chance.token_urlsafe(32)
    changed = await desk.store.write(
        lambda conn: (
            conn.execute(
                "UPDATE app SET secret_hash = ? WHERE client_id = ? AND enterprise = ?",
                (calls.hashed(secret), client_id, desk.enterprise),
            ).rowcount
        )
    )
    if not changed:
        return desk.done("There is no such application.", to="/apps", failed=True)
    message = "The secret is replaced; the old one no longer works."
    shown = {"Client ID": client_id, "Client secret": secret}
    return desk.done(message, to="/apps", secrets=shown)


async def renew_signature_key(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Replace one of an application's webhook signature keys; the other one stays valid."""
    _require_admin(desk)
    client_id = desk.request.path_params["id"]
    column = "secondary" if form.get("key") == "secondary" else "main"

    def txn(conn: Connection) -> dict[str, str] | None:
        sql = "SELECT 1 FROM app WHERE client_id = ? AND enterprise = ?"
        known = conn.execute(sql, (client_id, desk.enterprise)).fetchone()
        return None if known is None else clients.renew_signature_key(conn, client_id, column)

    made = await desk.store.write(txn)
    if made is None:
        return desk.done("There is no such application.", to="/apps", failed=True)
    names = {"main": "Primary signature key", "secondary": "Secondary signature key"}
    shown = {"Client ID": client_id} | {names[name]: key for name, key in made.items()}
    return desk.done("Webhooks are signed with the new key from now on.", to="/apps", secrets=shown)


def _require_admin(desk: Desk) -> None:
    if desk.caller.role != "admin":
        raise service_desk.Mistake(
            "Only an administrator registers applications, which may speak for everybody."
        )


def _ticked(form: dict[str, str], prefix: str) -> list[str]:
    """Return the names of the ticked checkboxes of a group."""
    return [name.removeprefix(prefix) for name in form if name.startswith(prefix)]
