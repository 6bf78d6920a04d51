"""No statement of a request goes through a whole table that grows with the items, on a server's database.

Requests of all kinds are made to a store of 100,000 items, and the server is asked how it carries out each
statement that they or the start ran, with its values: by which steps, and for how many rows in vain.  What
triggers run is not seen.  `tests/house/test_query_plans.py` does the like for a drive's replica.
"""

import re
from contextlib import closing

import pytest

from cmsfs.service.provisioning import demo
from cmsfs.service.server import sweeper
from cmsfs.service.storage import store

# Says itself which engine the store has.
pytestmark = pytest.mark.embedded

USERS, FOLDERS, FILES = 50, 20, 100
LARGE = ("item", "version", "event", "document", "document_words")
_SCAN = re.compile(rf"(?:Parallel )?Seq Scan on ({'|'.join(LARGE)})\b")
_IN_VAIN = re.compile(r"Rows Removed by [\w ]+: (\d+)")
_STATEMENT = re.compile(r"\s*(SELECT|WITH|UPDATE|DELETE|INSERT)\b")

# Rows that a step may look at for nothing: each user has 2,000 items.
MOST_IN_VAIN = 5_000

_ITEM = """
  INSERT INTO item (id, kind, owner, parent, path, name, name_key, extension, created_at, modified_at,
    content_created_at, content_modified_at, created_by, modified_by, size, version, sha1)
"""
# Each user has so many folders, and each folder so many files.
_FILL = f"""
  BEGIN; SET LOCAL session_replication_role = replica;
  CREATE TEMP TABLE place AS
    SELECT a.id AS owner, a.root, f, 1000000 + row_number() OVER (ORDER BY a.id, f) AS id
    FROM account AS a, generate_series(1, {FOLDERS}) AS f WHERE a.login LIKE 'user%';
  {_ITEM} SELECT id, 0, owner, root, '/'||root||'/', 'folder '||f, 'folder '||f, '', id, id, id, id,
    owner, owner, 5 * {FILES}, NULL, NULL FROM place;
  CREATE TEMP TABLE file AS
    SELECT p.*, n, 2000000 + row_number() OVER (ORDER BY p.id, n) AS number,
      'file '||n||' report '||p.id AS name
    FROM place AS p, generate_series(1, {FILES}) AS n;
  {_ITEM} SELECT number, 1, owner, id, '/'||root||'/'||id||'/', name, name, 'txt', number, number,
    number, number, owner, owner, 5, number, encode(sha256(number::text::bytea), 'hex') FROM file;
  INSERT INTO version (id, file, sha1, size, name, created_at, created_by)
    SELECT number, number, encode(sha256(number::text::bytea), 'hex'), 5, name, number, owner FROM file;
  INSERT INTO event (account, type, created_at, created_by, source)
    SELECT owner, 'ITEM_UPLOAD', number, owner,
      '{{"type": "file", "id": "'||number||'", "parent": {{"id": "'||id||'"}}}}' FROM file;
  SELECT setval('item_id_seq', 3000000), setval('version_id_seq', 3000000); COMMIT;
  INSERT INTO document (id, name, description, tags) SELECT number, name, '', '[]' FROM file;
  ANALYZE
"""


@pytest.fixture
def url(postgres):
    made = postgres.database()
    yield made
    postgres.drop(made)


@pytest.fixture
async def large(root, url, fill):
    """A store of so many items, most of them not of the callers."""
    from cmsfs.service.storage.postgres import connection

    async with store.open_store(root, database_url=url) as opened:
        await fill(opened)

        def people(conn):
            for number in range(USERS):
                login = f"user{number}@example.com"
                demo.add_user(conn, 1, f"User {number}", login, now=opened.now())

        await opened.write(people)
        with closing(connection.connect(url)) as conn:
            conn.command(_FILL)
        yield opened


@pytest.fixture
def statements(monkeypatch):
    """The statements that ran, each with the values of its first time."""
    from cmsfs.service.storage.postgres import connection

    seen: dict[str, object] = {}
    shipped = connection.PostgresConnection.execute

    def execute(self, sql, args=()):
        if _STATEMENT.match(sql):
            seen.setdefault(sql, args)
        return shipped(self, sql, args)

    monkeypatch.setattr(connection.PostgresConnection, "execute", execute)
    yield seen
    monkeypatch.undo()


def scans(url, seen):
    """The statements that go through a large table, with their steps."""
    from cmsfs.service.storage.postgres import connection

    found = {}
    with closing(connection.connect(url)) as conn:
        for sql, args in seen.items():
            how = (
                "EXPLAIN (ANALYZE, TIMING OFF)" if sql.lstrip().startswith(("SELECT", "WITH")) else "EXPLAIN"
            )
            conn.command("BEGIN")
            steps = "\n".join(row[0] for row in conn.execute(f"{how} {sql}", args).fetchall())
            conn.rollback_open_transaction()
            reads_any_row = sql.endswith("LIMIT 1") and "Filter" not in steps
            in_vain = max(map(int, _IN_VAIN.findall(steps)), default=0)
            if (_SCAN.search(steps) and not reads_any_row) or in_vain > MOST_IN_VAIN:
                found[sql] = steps
    return found


async def _as_people_do(api, user, folder, file):
    """Requests of one user, whose folder and file these are."""
    one, here = f"/files/{file}", f"/folders/{folder}"
    for path in (
        *("/folders/0/items", f"{here}/items?limit=50&offset=20", f"{here}/items?sort=date&direction=desc"),
        *(f"{here}/items?usemarker=true&limit=20", f"{here}/items?sort=size", here, one, f"{one}/versions"),
        *("/folders/trash/items", "/recent_items", "/collections", "/users/me", "/events?stream_position=0"),
        *("/events?stream_position=now", "/users?limit=20"),
        *("/users?filter_term=user1", f"{here}/collaborations", f"{one}/comments", f"{one}/tasks"),
        *(f"{one}/metadata", "/collaborations?status=pending", "/legal_hold_policies", "/retention_policies"),
        *("/search?query=report", "/search?query=file&type=file&limit=20", "/search?query=none"),
        *(
            f'/search?query="report 1000007"&ancestor_folder_ids={folder}',
            "/search?query=rep&content_types=name",
        ),
        "/search?created_at_range=2024-01-01T00:00:00Z,&query=report&sort=modified_at&direction=DESC",
        f"/search?query=NOT nothing&ancestor_folder_ids={folder}&limit=200",
        "/search?query=NOT nothing&updated_at_range=1970-01-01T00:00:00Z,2024-01-01T00:00:00Z&limit=20",
    ):
        answer = await api.http.get(path)
        assert answer.status_code in (200, 403), (path, answer.text)
    made = await api.upload("mine.txt", b"some words", folder)
    await api.version(made["id"], b"other words")
    assert await api.bytes(made["id"]) == b"other words"
    await api.ask("PUT", f"/files/{made['id']}", json={"name": "renamed.txt", "tags": ["one"]})
    new = await api.folder("new", folder)
    await api.upload("below.txt", b"some words", new["id"])
    await api.ask("PUT", f"/files/{made['id']}", json={"parent": {"id": new["id"]}})
    await api.ask("PUT", f"/files/{made['id']}", json={"shared_link": {"access": "open"}})
    await api.ask("POST", f"/files/{made['id']}/copy", json={"parent": {"id": folder}}, expect=201)
    body = {"parent": {"id": folder}, "name": "copy"}
    await api.ask("POST", f"/folders/{new['id']}/copy", json=body, expect=201)
    body = {"item": {"type": "folder", "id": new["id"]}, "role": "viewer"}
    body |= {"accessible_by": {"type": "user", "id": str(user)}}
    await api.ask("POST", "/collaborations", json=body, expect=201)
    await api.ask("PUT", f"/folders/{new['id']}", json={"name": "moved", "parent": {"id": "0"}})
    await api.ask("PUT", f"/files/{made['id']}", json={"shared_link": None})
    await api.ask("DELETE", f"/files/{made['id']}", expect=204)
    await api.ask("POST", f"/files/{made['id']}", json={}, expect=201)
    await api.ask("DELETE", f"/folders/{new['id']}?recursive=true", expect=204)
    await api.ask("GET", "/folders/trash/items")
    await api.ask("DELETE", f"/folders/{new['id']}/trash", expect=204)
    await api.commit(session := await api.begin(folder=folder), await api.put_all(session))
    wish = {"items": [{"type": "folder", "id": folder}]}
    asked = await api.ask("POST", "/zip_downloads", json=wish, expect=202)
    assert (await api.http.get(asked["status_url"])).status_code == 200


@pytest.mark.usefixtures("small")
@pytest.mark.timeout(300)
async def test_no_request_scans_a_large_table(large, url, as_user, statements):
    for login in ("user7@example.com", "ann@example.com"):
        api = await as_user(large, login)
        owner = large.read("SELECT id FROM account WHERE login = 'user7@example.com'")[0]["id"]
        place = large.read("SELECT id FROM item WHERE owner = ? AND kind = 0 AND status = 0 LIMIT 1", owner)
        file = large.read("SELECT id FROM item WHERE parent = ? LIMIT 1", place[0]["id"])
        if login.startswith("ann"):
            await api.ask("GET", "/events?stream_type=admin_logs&limit=20")
            made = await api.folder("of the administrator")
            place, file = [made], [await api.upload("a.txt", b"x", made["id"])]
        uwe = large.read("SELECT id FROM account WHERE login = 'uwe@example.com'")[0]["id"]
        await _as_people_do(api, uwe, str(place[0]["id"]), str(file[0]["id"]))
    await sweeper.sweep(large, large.now())
    assert len(statements) > 150
    assert scans(url, statements) == {}
    # What would be one is noticed.
    statements.clear()
    large.read("SELECT 1 FROM item WHERE size > ? LIMIT 1", 100_000)
    large.read("SELECT count(*) AS n FROM version WHERE name = ?", "x")
    large.read("SELECT id FROM event WHERE id > ? AND type = ? ORDER BY id LIMIT 1", 0, "x")
    large.read("SELECT id FROM item WHERE id = ?", 1)
    assert len(scans(url, statements)) == 3
