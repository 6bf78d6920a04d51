"""The sample enterprise of `cmsfs demo` and of the tests.

`cmsfs demo`, `cmsfs serve` and the embedded profile call `ensure_sample` on a store; the first call fills
it, later ones only read the credentials from a file beside the data that only this user can read.

Rule: a store with an enterprise of its own gets no sample, and its applications keep their secrets.

The texts are meant to be read: a welcome first, then folders that look like real work.
"""

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from sqlite3 import Connection, Row

import trio

from cmsfs import errors
from cmsfs.runtime import chance, threads
from cmsfs.service.access import calls, scopes
from cmsfs.service.content import files, instances, items, trash
from cmsfs.service.governance import legal_holds, retention
from cmsfs.service.metadata import templates
from cmsfs.service.oauth import clients, passwords
from cmsfs.service.provisioning import samples
from cmsfs.service.renditions import indexing
from cmsfs.service.sharing import exemptions
from cmsfs.service.storage import blobs
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Store, reader
from cmsfs.service.users import users
from cmsfs.service.worker import extraction

# The owner of the drive first.
PEOPLE = (
    ("Ada Example", "ada@example.com", "admin"),
    ("Ben Sample", "ben@example.com", "user"),
    ("Cleo Specimen", "cleo@example.com", "user"),
)

# Loopback addresses where local programs wait for a code, on any port.
REDIRECTS = tuple(
    f"http://{host}{path}" for host in ("127.0.0.1", "localhost", "[::1]") for path in ("/", "/callback")
)

# What the ids of the sample's applications begin with.
_SAMPLE_PREFIX = "sample-"
_SAMPLE_APP = f"""
  SELECT client_id, enterprise FROM app
  WHERE substr(client_id, 1, {len(_SAMPLE_PREFIX)}) = '{_SAMPLE_PREFIX}' ORDER BY client_id LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How an application logs in as the drive's owner, and the passwords of users."""

    client_id: str
    client_secret: str
    user_id: str
    enterprise_id: str
    passwords: dict[str, str] = field(default_factory=dict)  # by login


async def ensure_sample(store: Store) -> Credentials:
    """Return the credentials of the store's sample, which is created if missing.

    If cancelled, the sample is complete or absent.  Raises `UserError` for unreadable credentials, and if the
    store has an enterprise of its own.
    """
    return await threads.run_sync(_ensure, store)


def has_own_enterprise(store: Store) -> bool:
    """Whether the store has an enterprise, and not the sample's."""
    return bool(store.read("SELECT 1 FROM enterprise LIMIT 1")) and not store.read(_SAMPLE_APP)


def _ensure(store: Store) -> Credentials:
    # Two processes may start on an empty folder at once: the second finds what the first created.
    lock = os.open(store.root / "sample.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = store.root / "credentials.json"
        found = _read(path)
        if found is not None:
            return found
        secret = chance.token_urlsafe(32)
        words = {login: chance.token_urlsafe(12) for _, login, _ in PEOPLE}
        hashes = {login: passwords.hashed(word) for login, word in words.items()}
        sha1s = {text: store.blobs.keep_bytes(text.encode()) for text in samples.texts()}
        made = trio.from_thread.run(store.write, lambda conn: _fill(conn, store, secret, sha1s, hashes))
        made = replace(made, passwords=words)
        _write(path, made)
        return made
    finally:
        os.close(lock)


def _read(path: Path) -> Credentials | None:
    try:
        return Credentials(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise errors.UserError(
            f"{path} does not hold credentials; remove it to have new ones made."
        ) from error


def _write(path: Path, made: Credentials) -> None:
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(asdict(made), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def _fill(
    conn: Connection, store: Store, secret: str, sha1s: dict[str, str], hashes: dict[str, str]
) -> Credentials:
    """Create the sample, or new credentials if only those were lost."""
    app = conn.execute(_SAMPLE_APP).fetchone()
    if app is not None:
        conn.execute(
            "UPDATE app SET secret_hash = ? WHERE client_id = ?", (calls.hashed(secret), app["client_id"])
        )
        owner = conn.execute("SELECT min(id) AS id FROM account WHERE role = 'admin'").fetchone()
        _store_passwords(conn, hashes)
        return Credentials(app["client_id"], secret, str(owner["id"]), str(app["enterprise"]))
    if conn.execute("SELECT 1 FROM enterprise LIMIT 1").fetchone() is not None:
        raise errors.UserError(
            f"{store.root} has an enterprise of its own and no sample: serve it, and log in."
        )
    now = store.now()
    enterprise = add_enterprise(conn, "Example Enterprise", now=now)
    owner, *_ = [add_user(conn, enterprise, name, login, role=role, now=now) for name, login, role in PEOPLE]
    _store_passwords(conn, hashes)
    service = add_user(conn, enterprise, "cmsfs application", None, now=now)
    client_id = f"{_SAMPLE_PREFIX}{chance.token_hex(8)}"
    clients.add(
        conn,
        client_id,
        secret,
        name="cmsfs",
        enterprise=enterprise,
        service_user=service["id"],
        scopes=" ".join(scopes.APPLICATION),
        grants=" ".join(clients.GRANTS),
        redirect_uris=REDIRECTS,
    )
    _fill_tree(conn, store, owner, sha1s)
    _fill_administration(conn, owner, now=store.now())
    return Credentials(client_id, secret, str(owner["id"]), str(enterprise))


def _store_passwords(conn: Connection, hashes: dict[str, str]) -> None:
    for login, hashed in hashes.items():
        found = conn.execute("SELECT id FROM account WHERE login = ?", (login,)).fetchone()
        if found is not None:
            passwords.store_hash(conn, found["id"], hashed)


def add_enterprise(conn: Connection, name: str, *, now: int) -> int:
    sql = "INSERT INTO enterprise (name, created_at) VALUES (?, ?) RETURNING id"
    return int(conn.execute(sql, (name, now)).fetchone()["id"])


def add_user(
    conn: Connection, enterprise: int, name: str, login: str | None, *, role: str = "user", now: int
) -> Row:
    """Create a user with an empty root folder."""
    return users.insert(conn, enterprise, name, login, role=role, now=now)


def _fill_administration(conn: Connection, owner: Row, *, now: int) -> None:
    """Create one of each thing that administrators manage."""
    enterprise, by = owner["enterprise"], owner["id"]
    read = reader(conn)

    def item(path: str) -> Row:
        found = items.find(conn, owner["root"])
        for name in path.split("/"):
            found = read("SELECT * FROM item WHERE parent = ? AND name = ?", found["id"], name)[0]
        return found

    template = templates.insert(conn, enterprise, samples.TEMPLATE)
    template_row = read("SELECT * FROM metadata_template WHERE id = ?", template)[0]
    values = templates.checked(template_row, samples.VALUES)
    instances.insert(conn, item(samples.DESCRIBED)["id"], template_row, values)
    hold = legal_holds.POLICIES.insert(conn, enterprise, samples.HOLD, by=by, now=now)
    held = item(samples.HELD)["id"]
    legal_holds.ASSIGNMENTS.assign(conn, hold, "folder", held, by=by, now=now)
    policy = retention.POLICIES.insert(conn, enterprise, samples.RETENTION, by=by, now=now)
    retained = item(samples.RETAINED)["id"]
    retention.ASSIGNMENTS.assign(conn, policy, "folder", retained, by=by, now=now)
    exempt = read("SELECT id FROM account WHERE login = 'cleo@example.com'")[0]["id"]
    exemptions.add(conn, enterprise, exempt, now=now)


def _fill_tree(conn: Connection, store: Store, owner: Row, sha1s: dict[str, str]) -> None:
    folders = {"": items.find(conn, owner["root"])}
    for sample in samples.TREE:
        above, _, name = sample.path.rpartition("/")
        now = store.now()
        new = items.New(sample.kind, name, description=sample.description)
        if sample.kind is ItemKind.FILE:
            size = len(sample.text.encode())
            new = items.New(ItemKind.FILE, name, size, sha1s[sample.text], description=sample.description)
        elif sample.kind is ItemKind.WEB_LINK:
            new = items.New(ItemKind.WEB_LINK, name, url=sample.text, description=sample.description)
        row = items.insert(conn, folders[above], new, by=owner["id"], now=now)
        if sample.kind is ItemKind.FILE:
            files.add_version(conn, row, by=owner["id"], now=now)
            data = sample.text.encode()
            indexing.record_content(conn, row, extraction.first_look(data[: blobs.HEAD_BYTES], len(data)))
        elif sample.kind is ItemKind.FOLDER:
            folders[sample.path] = row
        if sample.path in samples.TRASHED:
            trash.move_to_trash(conn, items.find(conn, row["id"]), by=owner["id"], now=store.now())
