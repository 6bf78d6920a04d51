"""The tables of both engines are the same: columns, what is unique, what refers to what, where ids begin."""

import json
import re
import sqlite3
from contextlib import closing
from importlib import resources

import pytest

from cmsfs import database_files
from cmsfs.service.storage import upgrade
from cmsfs.service.storage.postgres import connection, format
from tests.support import sqlite_letters

_TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea"}

# What the processes share there, and the index of words here.
_OWN = {"shared_value", "attempt", "document_words"}

_COLUMNS = """
  SELECT table_name, column_name, data_type, is_nullable = 'NO', column_default, is_identity = 'YES',
    collation_name
  FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
"""
_UNIQUE = """
  SELECT t.relname, i.relname, pg_get_indexdef(x.indexrelid), x.indisunique
  FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS t ON t.oid = x.indrelid
    JOIN pg_namespace AS n ON n.oid = t.relnamespace WHERE n.nspname = 'public'
"""
_FOREIGN = """
  SELECT conrelid::regclass::text, a.attname, confrelid::regclass::text, confdeltype::text
  FROM pg_constraint JOIN pg_attribute AS a ON a.attrelid = conrelid AND a.attnum = conkey[1]
  WHERE contype = 'f'
"""
_TRIGGERS = """
  SELECT DISTINCT tgname::text, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal
"""
_ACTIONS = {"NO ACTION": "a", "CASCADE": "c", "SET NULL": "n"}
# Makes a database what a version that wrote format 13 made, the first on this engine.
TO_FORMAT_13 = """
  DROP INDEX item_below;
  CREATE INDEX item_below ON item (path, status, modified_at, created_at, kind);
  CREATE OR REPLACE FUNCTION words_of(content text) RETURNS text LANGUAGE sql IMMUTABLE
    AS $$ SELECT ' ' || lower(content) || ' ' $$;
  UPDATE shared_value SET value = '13' WHERE name IN ('format', 'oldest_beside')
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    path = tmp_path_factory.mktemp("schema") / "service.db"
    path.touch()
    reader, writer = database_files.prepare(path, upgrade.schema(), upgrade.VERSION, {})
    with closing(reader), closing(writer):
        yield reader


@pytest.fixture(scope="module")
def there(postgres):
    with closing(connection.connect(postgres.database())) as conn:
        yield conn


def tables(conn: sqlite3.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
    return [row[0] for row in conn.execute(sql) if not re.match(r"word($|_)", row[0])]


def test_columns(here, there):
    wanted, found = {}, {}
    for table in tables(here):
        for row in here.execute(f"PRAGMA table_info({table})"):
            default = None if row["dflt_value"] is None else row["dflt_value"].strip("'")
            must = bool(row["notnull"] or row["pk"])
            wanted[table, row["name"]] = (_TYPES[row["type"]], must, default)
    for table, column, kind, must, default, _, collation in there.execute(_COLUMNS).fetchall():
        if table not in _OWN:
            assert collation == ("C" if kind == "text" else None)
            default = None if default is None else re.sub(r"::\w+$", "", default).strip("'")
            found[table, column] = (kind, bool(must), default)
    assert found == wanted


def test_what_is_unique(here, there):
    """By the columns, or the expressions, and for which rows."""

    def plain(sql):
        # A path may be too long for an index of the usual kind there: see schema.translate.
        sql = re.sub(r"\(path\) INCLUDE \(", "(path, ", sql)
        if re.search(r"\(owner, status, .*, path\)$", sql):
            sql = sql.replace(", path)", ")")
        shown = re.search(r"\((.*)$", sql)[1].replace('"', "")
        return re.sub(r"::\w+|\s|[()]|collatec", "", shown.lower())

    wanted, found = set(), set()
    for table in tables(here):
        for row in here.execute(f"PRAGMA index_list({table})").fetchall():
            sql = here.execute("SELECT sql FROM sqlite_master WHERE name = ?", (row["name"],)).fetchone()
            if sql is not None and sql[0] is not None:
                wanted.add((table, row["name"], bool(row["unique"]), plain(sql[0].partition(" ON ")[2])))
            else:
                columns = [one["name"] for one in here.execute(f"PRAGMA index_info('{row['name']}')")]
                wanted.add((table, None, True, ",".join(columns)))
    for table, name, sql, unique in there.execute(_UNIQUE).fetchall():
        if table not in _OWN:
            made = name in {one[1] for one in wanted}
            found.add((table, name if made else None, bool(unique), plain(sql.partition(" USING ")[2])))
    # A table's own number has no index of its own here.
    numbers = {one for one in found - wanted if one[1] is None and "," not in one[3]}
    for table, _, _, column in numbers:
        row = next(one for one in here.execute(f"PRAGMA table_info({table})") if one["name"] == column)
        assert row["pk"] and row["type"] == "INTEGER"
    assert found - numbers == wanted


def test_what_refers_to_what(here, there):
    wanted = {
        (table, row["from"], row["table"], _ACTIONS[row["on_delete"]])
        for table in tables(here)
        for row in here.execute(f"PRAGMA foreign_key_list({table})").fetchall()
    }
    found = {tuple(row) for row in there.execute(_FOREIGN).fetchall() if row[0] not in _OWN}
    assert found == wanted


def test_triggers_have_the_same_names(here, there):
    rows = here.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    wanted = {tuple(row) for row in rows}
    found = {tuple(row) for row in there.execute(_TRIGGERS).fetchall()}
    # There a document's words go with it by a reference.
    assert found | {("document_gone", "document")} == wanted


def test_ids_begin_at_the_same_numbers(here, there):
    for table, last in here.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
        row = there.execute(f"SELECT last_value, is_called FROM {table}_id_seq").fetchone()
        assert row["last_value"] - (not row["is_called"]) == last, table


def test_a_database_of_format_13_finds_long_paths_and_all_words(postgres):
    url = postgres.database()
    with closing(connection.connect(url)) as conn:
        conn.command(TO_FORMAT_13)
        for number, name in ((1, "Été"), (2, "plain")):
            conn.execute(
                "INSERT INTO document (id, name, description, tags) VALUES (?, ?, '', '')", (number, name)
            )
        format.prepare(url)
        found = conn.execute("SELECT name FROM document_words ORDER BY id").fetchall()
        assert [row["name"] for row in found] == [" ete ", " plain "]
        kind = conn.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'item_below'").fetchone()
        assert "spgist" in kind["indexdef"]
    postgres.drop(url)


@pytest.mark.parametrize("of", [pytest.param(1, marks=pytest.mark.long), 97])
def test_every_character_is_in_words_what_it_is_in_sqlite(there, of):
    """Unless `--long`, each of 97, and all that texts are mostly made of."""
    chosen = [one for one in sqlite_letters.CHARACTERS if ord(one) < 0x600 or ord(one) % of == 0]
    wanted = sqlite_letters.words(f"a{one}b" for one in chosen)
    found = []
    for start in range(0, len(chosen), 10_000):
        texts = json.dumps([f"a{one}b" for one in chosen[start : start + 10_000]])
        sql = "SELECT btrim(words_of(value)) AS words FROM json_each(?) ORDER BY key::int"
        found += [row["words"].split(" ") for row in there.execute(sql, (texts,)).fetchall()]
    differ = [one for one, here, said in zip(chosen, wanted, found, strict=True) if here != said]
    assert differ == []


@pytest.mark.long
def test_the_table_of_letters_is_sqlites():
    text = resources.files("cmsfs.service.storage.postgres") / "letters.sql"
    assert text.read_text(encoding="utf-8") == sqlite_letters.letters_sql()
