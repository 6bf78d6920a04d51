"""Creates what an enterprise file lists and the store lacks: users, apps, folders, templates, policies.

`cmsfs serve --enterprise-file` calls `ensure` before it listens.  Existing things are matched by their names:
the enterprise, groups and policies by name, users by login, apps by client id, folders by path, templates by
key, assignments by their target.

Rule: existing things stay as they are, apart from additions, and nothing is ever deleted.  A file is applied
as a whole or not at all.
"""

import json
import logging
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any

from cmsfs import errors
from cmsfs.models import wire_names
from cmsfs.models.content import metadata
from cmsfs.models.enterprise import legal_holds as models_legal_holds
from cmsfs.models.enterprise import retention as models_retention
from cmsfs.runtime import threads
from cmsfs.service.content import items
from cmsfs.service.governance import legal_holds, retention
from cmsfs.service.metadata import templates
from cmsfs.service.oauth import clients, passwords
from cmsfs.service.provisioning import enterprise_file, parties
from cmsfs.service.sharing import exemptions
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Store
from cmsfs.service.users import storage_policies, users

log = logging.getLogger(__name__)

Enterprise = enterprise_file.Enterprise
load = enterprise_file.load

_DETAILS = ("job_title", "phone", "address", "language")


async def ensure(store: Store, wish: Enterprise) -> int:
    """Create what the file lists and the store lacks; return the number of things created.

    Raises `ConfigError` without having changed anything.
    """
    sql = "SELECT login FROM password JOIN account ON account.id = password.account WHERE login IS NOT NULL"
    have = {row["login"].lower() for row in store.read(sql)}
    hashes = {}
    for number, user in enumerate(wish.users, 1):
        if user.password is not None and user.login.lower() not in have:
            secret = wish.read_secret(user.password, f"users[{number}].password")
            hashes[user.login.lower()] = await threads.run_sync(passwords.hashed, secret)
    # Files are read before the transaction, so that slow reads do not block other writers.
    apps = [_prepare(wish, app, f"apps[{number}]") for number, app in enumerate(wish.apps, 1)]
    made = await store.write(lambda conn: _Provision(conn, store, wish).run(hashes, apps))
    log.info("created %d things that %s lists and the store lacked", made, wish.file)
    return made


@dataclass(frozen=True, slots=True)
class Ids:
    """The API ids of an enterprise and of the users in its file."""

    enterprise: str
    users: dict[str, str]  # by login


def ids(store: Store, wish: Enterprise) -> Ids:
    """Return the ids of what a file lists, after `ensure`."""
    number = store.read("SELECT min(id) AS id FROM enterprise WHERE name = ?", wish.enterprise.name)[0]["id"]
    logins = json.dumps([user.login.lower() for user in wish.users])
    sql = "SELECT login, id FROM account WHERE enterprise = ?"
    found = store.read(
        f"{sql} AND lower(login) IN (SELECT value FROM json_each(?)) ORDER BY id", number, logins
    )
    return Ids(str(number), {row["login"]: str(row["id"]) for row in found})


@dataclass(frozen=True, slots=True)
class _PreparedApp:
    """An app with its secret and keys read."""

    app: enterprise_file.ProvisionedApp
    secret: str
    keys: list[tuple[str, str]]
    signature: tuple[str, str] | None  # the primary and the secondary key


def _prepare(wish: Enterprise, app: enterprise_file.ProvisionedApp, where: str) -> _PreparedApp:
    keys = [(key.kid, wish.read(key.file, f"{where}.public_keys")) for key in app.public_keys]
    signature = None
    if (both := app.signature_keys) is not None:
        here = f"{where}.signature_keys"
        signature = (wish.read_secret(both.primary, here), wish.read_secret(both.secondary, here))
    return _PreparedApp(app, wish.read_secret(app.client_secret, f"{where}.client_secret"), keys, signature)


class _Provision:
    """The work of one transaction."""

    def __init__(self, conn: Connection, store: Store, wish: Enterprise) -> None:
        self._conn = conn
        self._store = store
        self._wish = wish
        self._made = 0
        self._enterprise = 0
        self._admin = 0

    def run(self, hashes: dict[str, str], apps: list[_PreparedApp]) -> int:
        self._ensure_enterprise()
        for user in self._wish.users:
            self._ensure_user(user, hashes.get(user.login.lower()))
        sql = "SELECT min(id) FROM account WHERE enterprise = ? AND role = 'admin'"
        self._admin = self._conn.execute(sql, (self._enterprise,)).fetchone()[0]
        for number, app in enumerate(apps, 1):
            self._ensure_app(app, f"apps[{number}]")
        for number, group in enumerate(self._wish.groups, 1):
            self._ensure_group(group, f"groups[{number}]")
        for number, folder in enumerate(self._wish.folders, 1):
            owner = self._user(folder.owner, f"folders[{number}].owner")
            row = self._ensure_folder(owner, folder)
            for at, one in enumerate(folder.collaborators, 1):
                self._ensure_collaborator(row, one, f"folders[{number}].collaborators[{at}]")
        for template in self._wish.templates:
            self._ensure_template(template)
        for number, hold in enumerate(self._wish.legal_holds, 1):
            self._ensure_hold(hold, f"legal_holds[{number}]")
        for number, policy in enumerate(self._wish.retention_policies, 1):
            self._ensure_retention(policy, f"retention_policies[{number}]")
        for number, exemption in enumerate(self._wish.exemptions, 1):
            user = self._user(exemption.login, f"exemptions[{number}].login")["id"]
            if not self._has("exemption", enterprise=self._enterprise, account=user):
                exemptions.add(self._conn, self._enterprise, user, now=self._now())
                self._made += 1
        for place in self._wish.storage_policies:
            self._made += storage_policies.add(self._conn, self._enterprise, place.name)
        return self._made

    def _now(self) -> int:
        return self._store.now()

    def _one(self, table: str, **where: Any) -> Row | None:
        parts = " AND ".join(f"{name} IS NULL" if where[name] is None else f"{name} = ?" for name in where)
        values = tuple(value for value in where.values() if value is not None)
        found: Row | None = self._conn.execute(
            f"SELECT * FROM {table} WHERE {parts} LIMIT 1", values
        ).fetchone()
        return found

    def _has(self, table: str, **where: Any) -> bool:
        return self._one(table, **where) is not None

    def _ensure_enterprise(self) -> None:
        about = self._wish.enterprise
        found = self._one("enterprise", name=about.name)
        if found is not None:
            self._enterprise = found["id"]
            return
        days = None if about.trash_days == "never" else about.trash_days
        made = self._conn.execute(
            "INSERT INTO enterprise (name, created_at, tracking_codes, trash_days) VALUES (?, ?, ?, ?)"
            " RETURNING id",
            (about.name, self._now(), json.dumps(about.tracking_codes), days),
        )
        self._enterprise = made.fetchone()["id"]
        self._made += 1

    def _user(self, login: str, where: str) -> Row:
        """Return a user of the enterprise by login.  Raises `ConfigError`."""
        sql = "SELECT * FROM account WHERE enterprise = ? AND lower(login) = lower(?)"
        found: Row | None = self._conn.execute(sql, (self._enterprise, login)).fetchone()
        if found is None:
            raise self._wish.error(where, f"the enterprise has no user {login!r}")
        return found

    def _ensure_user(self, user: enterprise_file.ProvisionedUser, password_hash: str | None) -> None:
        found = self._conn.execute(
            "SELECT * FROM account WHERE lower(login) = lower(?)", (user.login,)
        ).fetchone()
        if found is not None and found["enterprise"] != self._enterprise:
            raise self._wish.error("users", f"{user.login!r} is a user of another enterprise")
        if found is None:
            found = users.insert(
                self._conn,
                enterprise=self._enterprise,
                name=user.name,
                login=user.login,
                role=user.role,
                now=self._now(),
            )
            self._set_user(found, user)
            self._made += 1
        if password_hash is not None:
            passwords.store_hash(self._conn, found["id"], password_hash)
            self._made += 1

    def _set_user(self, row: Row, user: enterprise_file.ProvisionedUser) -> None:
        details = {name: value for name in _DETAILS if (value := getattr(user, name)) is not None}
        columns = {"status": user.status, "details": json.dumps(details, ensure_ascii=False)}
        for name in ("space_amount", "max_upload_size", "enterprise_content"):
            if (value := getattr(user, name)) is not None:
                columns[name] = value
        parts = ", ".join(f"{name} = ?" for name in columns)
        self._conn.execute(f"UPDATE account SET {parts} WHERE id = ?", (*columns.values(), row["id"]))

    def _ensure_app(self, prepared: _PreparedApp, where: str) -> None:
        app = prepared.app
        found = self._one("app", client_id=app.client_id)
        if found is not None and found["enterprise"] != self._enterprise:
            raise self._wish.error(f"{where}.client_id", f"{app.client_id!r} is an app of another enterprise")
        if found is None:
            clients.add(
                self._conn,
                app.client_id,
                prepared.secret,
                name=app.name,
                enterprise=self._enterprise,
                service_user=self._service_user(app, where),
                scopes=" ".join(app.scopes),
                grants=" ".join(app.grants),
                redirect_uris=tuple(app.redirect_uris),
            )
            self._made += 1
        elif missing := [one for one in app.redirect_uris if one not in json.loads(found["redirect_uris"])]:
            uris = json.dumps(json.loads(found["redirect_uris"]) + missing)
            self._conn.execute("UPDATE app SET redirect_uris = ? WHERE client_id = ?", (uris, app.client_id))
            self._made += len(missing)
        for kid, pem in prepared.keys:
            if not self._has("app_key", app=app.client_id, kid=kid):
                try:
                    clients.add_key(self._conn, app.client_id, kid, pem)
                except errors.UserError as error:
                    message = error.message.rstrip(".")
                    raise self._wish.error(f"{where}.public_keys", f"{kid}: {message}") from None
                self._made += 1

        if prepared.signature is not None and not self._has("signature_key", app=app.client_id):
            main, secondary = prepared.signature
            clients.set_signature_keys(self._conn, app.client_id, main=main, secondary=secondary)
            self._made += 1

    def _service_user(self, app: enterprise_file.ProvisionedApp, where: str) -> int:
        if app.service_user is not None:
            number: int = self._user(app.service_user, f"{where}.service_user")["id"]
            return number
        made: int = users.insert(self._conn, self._enterprise, app.name[:50], None, now=self._now())["id"]
        return made

    def _ensure_folder(self, owner: Row, folder: enterprise_file.ProvisionedFolder) -> Row:
        parts = folder.path.split("/")
        above = items.find(self._conn, owner["root"])
        for depth, name in enumerate(parts, 1):
            found = self._one("item", parent=above["id"], name_key=wire_names.name_key(name), status=0)
            if found is not None and found["kind"] != ItemKind.FOLDER:
                raise self._wish.error("folders", f"{name!r} of {folder.path!r} is there and is no folder")
            if found is None:
                description = folder.description if depth == len(parts) else ""
                new = items.New(ItemKind.FOLDER, name, description=description)
                found = items.insert(self._conn, above, new, by=owner["id"], now=self._now())
                self._made += 1
            above = found
        return above

    def _ensure_group(self, group: enterprise_file.ProvisionedGroup, where: str) -> None:
        members = [
            (self._user(one.login, f"{where}.members[{at}].login"), one.role)
            for at, one in enumerate(group.members, 1)
        ]
        now = self._now()
        self._made += parties.ensure_group(
            self._conn, self._enterprise, group, members, by=self._admin, now=now
        )

    def _ensure_collaborator(
        self, folder: Row, wish: enterprise_file.ProvisionedCollaborator, where: str
    ) -> None:
        if wish.login is not None:
            party: dict[str, int] = {"account": self._user(wish.login, f"{where}.login")["id"]}
        else:
            group = parties.find_group(self._conn, self._enterprise, wish.group or "")
            if group is None:
                raise self._wish.error(f"{where}.group", f"the enterprise has no group {wish.group!r}")
            party = {"user_group": group["id"]}
        if folder["owner"] != party.get("account") and not self._has(
            "collaboration", item=folder["id"], **party
        ):
            parties.share(self._conn, folder, self._enterprise, party, wish.role, now=self._now())
            self._made += 1

    def _folder(self, target: enterprise_file.ProvisionedTarget, where: str) -> int:
        owner = self._user(target.owner or "", f"{where}.owner")
        above: Row | None = items.find(self._conn, owner["root"])
        for name in (target.path or "").split("/"):
            if above is not None:
                key = wire_names.name_key(name)
                above = self._one("item", parent=above["id"], name_key=key, status=0, kind=0)
        if above is None:
            raise self._wish.error(f"{where}.path", f"{target.owner} has no folder {target.path!r}")
        number: int = above["id"]
        return number

    def _ensure_template(self, template: enterprise_file.ProvisionedTemplate) -> None:
        sql = "SELECT 1 FROM metadata_template WHERE enterprise = ? AND lower(key) = lower(?)"
        if self._conn.execute(sql, (self._enterprise, template.key)).fetchone():
            return
        given = [
            metadata.Field(
                type=one.type,
                key=one.key,
                display_name=one.display_name or one.key,
                options=[metadata.Option(key=key) for key in one.options] or None,
            )
            for one in template.fields
        ]
        whole = metadata.NewTemplate(
            scope="enterprise",
            template_key=template.key,
            display_name=template.display_name,
            hidden=template.hidden,
            fields=given,
            copy_instance_on_item_copy=template.copy_with_item,
        )
        templates.insert(self._conn, self._enterprise, whole)
        self._made += 1

    def _ensure_hold(self, hold: enterprise_file.ProvisionedHold, where: str) -> None:
        key = wire_names.name_key(hold.name)
        found = self._one("legal_hold_policy", enterprise=self._enterprise, name_key=key, deleted_at=None)
        if found is None:
            shape = models_legal_holds.NewLegalHoldPolicy(
                policy_name=hold.name,
                description=hold.description,
                filter_started_at=hold.filter_started_at,
                filter_ended_at=hold.filter_ended_at,
            )
            number = legal_holds.POLICIES.insert(
                self._conn, self._enterprise, shape, by=self._admin, now=self._now()
            )
            self._made += 1
        else:
            number = found["id"]
        for at, target in enumerate(hold.assignments, 1):
            here = f"{where}.assignments[{at}]"
            if target.type == "enterprise" or target.type == "metadata_template":
                raise self._wish.error(f"{here}.type", "a hold is on a folder or on a user")
            wanted = self._target(target, here)
            table = "legal_hold_assignment"
            if not self._has(table, policy=number, type=target.type, target=wanted, deleted_at=None):
                legal_holds.ASSIGNMENTS.assign(
                    self._conn, number, target.type, wanted, by=self._admin, now=self._now()
                )
                self._made += 1

    def _ensure_retention(self, policy: enterprise_file.ProvisionedRetention, where: str) -> None:
        found = self._one("retention_policy", enterprise=self._enterprise, name=policy.name)
        if found is None:
            shape = models_retention.NewRetentionPolicy(
                policy_name=policy.name,
                policy_type="indefinite" if policy.days == models_retention.INDEFINITE else "finite",
                retention_length=policy.days,
                disposition_action=policy.disposition_action,
                retention_type="modifiable" if policy.modifiable else "non_modifiable",
                description=policy.description,
            )
            number = retention.POLICIES.insert(
                self._conn, self._enterprise, shape, by=self._admin, now=self._now()
            )
            self._made += 1
        else:
            number = found["id"]
        for at, target in enumerate(policy.assignments, 1):
            here = f"{where}.assignments[{at}]"
            if target.type in ("user", "ownership", "interactions"):
                raise self._wish.error(
                    f"{here}.type", "retention is of a folder, a template or the enterprise"
                )
            wanted = self._target(target, here)
            if not self._has("retention_assignment", policy=number, type=target.type, target=wanted):
                retention.ASSIGNMENTS.assign(
                    self._conn, number, target.type, wanted, by=self._admin, now=self._now()
                )
                self._made += 1

    def _target(self, target: enterprise_file.ProvisionedTarget, where: str) -> int:
        """Return the row id of an assignment's target.  Raises `ConfigError`."""
        if target.type == "enterprise":
            return self._enterprise
        if target.type == "folder":
            return self._folder(target, where)
        if target.type == "metadata_template":
            sql = "SELECT id FROM metadata_template WHERE enterprise = ? AND lower(key) = lower(?)"
            found = self._conn.execute(sql, (self._enterprise, target.key)).fetchone()
            if found is None:
                raise self._wish.error(f"{where}.key", f"the enterprise has no template {target.key!r}")
            return int(found["id"])
        number: int = self._user(target.login or "", f"{where}.login")["id"]
        return number
