"""Refuses deletions that legal holds or retention policies forbid; the one place that decides this.

A version is held while a hold's assignment covers it, and retained until the last retention that covers it
ends.  Coverage is found by the item's place, owner and metadata at the moment of asking; what leaves a
covered place (a move, metadata taken away) is written down before it leaves (`keep_...`), and stays covered.

Rule: whoever removes a version for good calls a `check_...` first, in the same transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.service import problems
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Read

# A hold that was deleted protects a little longer: releasing is announced as something that takes time.
RELEASE_MICROS = 1_000_000

DAY_MICROS = 24 * 3600 * 1_000_000
# The end of a retention without one: later than every moment.
FOREVER = 2**62
# With this added, every end has the same number of digits: text of them has their order.
_WIDE = 2 * 10**18

# The versions of an enterprise (v, of file f) with the assignments (a, of policy p) that hold them.  The
# argument :now is in both.  A policy's dates bound what a user made or owned, and nothing else.
HELD = f"""
  FROM version AS v JOIN item AS f ON f.id = v.file JOIN account AS u ON u.id = f.owner
    JOIN legal_hold_policy AS p ON p.enterprise = u.enterprise
    JOIN legal_hold_assignment AS a ON a.policy = p.id
  WHERE coalesce(p.deleted_at + {RELEASE_MICROS} > :now, true)
    AND coalesce(a.deleted_at + {RELEASE_MICROS} > :now, true)
    AND (CASE a.type
        WHEN 'file' THEN a.target = f.id
        WHEN 'file_version' THEN a.target = v.id
        WHEN 'folder' THEN instr(f.path, '/' || a.target || '/') > 0
        ELSE (a.target = f.owner AND a.type != 'interactions'
            OR a.target = v.created_by AND a.type != 'ownership')
          AND coalesce(v.created_at >= p.filter_started_at, true)
          AND coalesce(v.created_at <= p.filter_ended_at, true)
      END OR EXISTS (SELECT 1 FROM legal_hold_kept AS k WHERE k.assignment = a.id AND k.version = v.id))
"""
_COVERED = """
  FROM version AS v JOIN item AS f ON f.id = v.file JOIN account AS u ON u.id = f.owner
    JOIN retention_policy AS p ON p.enterprise = u.enterprise
    JOIN retention_assignment AS a ON a.policy = p.id
    LEFT JOIN metadata_instance AS m
      ON a.type = 'metadata_template' AND m.item = f.id AND m.template = a.target
  WHERE coalesce(v.created_at < p.retired_at, true)
    AND (CASE a.type
        WHEN 'folder' THEN instr(f.path, '/' || a.target || '/') > 0
        WHEN 'enterprise' THEN true
        ELSE m.id IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM json_each(a.filters) AS c WHERE NOT EXISTS (
            SELECT 1 FROM json_each(m.data, '$."' || json_extract(c.value, '$.key') || '"') AS given
              WHERE given.value = json_extract(c.value, '$.text')))
      END OR EXISTS (SELECT 1 FROM retention_kept AS k WHERE k.assignment = a.id AND k.version = v.id))
"""
# A date field that the instance does not have counts as the day of the upload.  What was extended ends later.
_END = f"""
  max(CASE WHEN p.days IS NULL THEN {FOREVER} ELSE p.days * {DAY_MICROS} + coalesce(
    unixepoch(json_extract(m.data, '$."' || a.start_key || '"')) * 1000000, v.created_at) END,
    coalesce((SELECT until FROM retention_extended AS later WHERE later.version = v.id), 0))
"""
RETAINED = f"{_COVERED} AND {_END} > :now"

_LEFT = """
  SELECT a.id, v.id FROM {table} AS a, version AS v JOIN item AS f ON f.id = v.file
    WHERE a.type = 'folder'
      AND instr(:old, '/' || a.target || '/') > 0 AND instr(:new, '/' || a.target || '/') = 0
      AND (f.id = :item OR (f.path >= :first AND f.path < :end))
"""


def check_purge(conn: Connection, row: Row, *, now: int) -> None:
    """403 if an item of the trash, or anything that went there under it, is protected."""
    if row["kind"] == ItemKind.FILE:
        _check(conn, "f.id = :item", now=now, item=row["id"])
    elif row["kind"] == ItemKind.FOLDER:
        first, end = tree_paths.below(row)
        where = "f.path >= :first AND f.path < :end AND f.trash = :item"
        _check(conn, where, now=now, item=row["id"], first=first, end=end)


def check_version(conn: Connection, number: int, *, now: int) -> None:
    """403 if a version is protected."""
    _check(conn, "v.id = :version", now=now, version=number)


def check_leaving(conn: Connection, item: int, first: str, end: str, *, now: int) -> None:
    """403 if an item, or anything whose path is in the range, is protected and would get another owner."""
    where = "(f.id = :item OR (f.path >= :first AND f.path < :end))"
    _check(conn, where, now=now, item=item, first=first, end=end)


def check_owner(conn: Connection, user: int, *, now: int) -> None:
    """403 if anything that a user owns is protected."""
    _check(conn, "f.owner = :owner", now=now, owner=user)


def _check(conn: Connection, where: str, **args: Any) -> None:
    for by, said in ((HELD, "A legal hold"), (RETAINED, "A retention policy")):
        if conn.execute(f"SELECT 1 {by} AND {where} LIMIT 1", args).fetchone():
            raise problems.Refused(403, "forbidden_by_policy", f"{said} protects this from being deleted.")


def keep_moved(conn: Connection, row: Row, path: str) -> None:
    """Write down what covers an item's versions now and would not after its move below `path`."""
    first, end = tree_paths.below(row)
    args = {"old": row["path"], "new": path, "item": row["id"], "first": first, "end": end}
    for table, kept in (
        ("legal_hold_assignment", "legal_hold_kept"),
        ("retention_assignment", "retention_kept"),
    ):
        # Where nothing is assigned to a folder, a move stays as quick as it is.
        if conn.execute(f"SELECT 1 FROM {table} WHERE type = 'folder' LIMIT 1").fetchone():
            conn.execute(f"INSERT INTO {kept} {_LEFT.format(table=table)} ON CONFLICT DO NOTHING", args)


def keep_described(conn: Connection, item: int) -> None:
    """Write down what covers a file's versions by its metadata, which is about to change."""
    conn.execute(
        f"INSERT INTO retention_kept SELECT a.id, v.id {_COVERED}"
        " AND a.type = 'metadata_template' AND f.id = :item ON CONFLICT DO NOTHING",
        {"item": item},
    )


def disposable(read: Read, *, now: int, after: int, limit: int) -> list[Row]:
    """The versions whose retention ended with their removal: `id`, `file`, and the file's `current` version.

    Of several retentions the one that ended last decides.  Others may protect them still: ask before.
    """
    anything = "SELECT 1 FROM retention_policy WHERE disposition_action = 'permanently_delete' LIMIT 1"
    if not read(anything):
        return []
    # The moment of the upload is cheap to look at, and most ends are counted from there.
    ended = f"(a.start_key IS NOT NULL OR v.created_at <= ?1 - p.days * {DAY_MICROS}) AND {_END} <= ?1"
    # Of two with one end, the one that removes nothing is the greater.
    last = f"max({_END} * 2 + CASE p.disposition_action WHEN 'permanently_delete' THEN 0 ELSE 1 END)"
    sql = f"SELECT v.id, v.file, max(f.version) AS current {_COVERED} AND {ended} AND v.id > ?2 GROUP BY v.id"
    return read(f"{sql} HAVING {last} % 2 = 0 ORDER BY v.id LIMIT ?3", now, after, limit)


def ends(read: Read, rows: Sequence[Row]) -> dict[int, int]:
    """When the retention of each file's current version ends, by the file's id.

    What is not retained, or without an end, is left out.
    """
    versions = json.dumps([row["version"] for row in rows if row["version"] is not None])
    numbers = "SELECT CAST(value AS BIGINT) FROM json_each(?)"
    sql = f"SELECT f.id, max({_END}) AS until {_COVERED} AND v.id IN ({numbers}) GROUP BY f.id"
    return {row["id"]: row["until"] for row in read(sql, versions) if row["until"] < FOREVER}


def extend(conn: Connection, row: Row, until: int) -> None:
    """Retain a file's current version until then; 400 if it is not retained, or for longer already."""
    sql = f"SELECT max({_END}) AS until {_COVERED} AND v.id = ?"
    end = conn.execute(sql, (row["version"],)).fetchone()["until"]
    if end is None:
        raise problems.invalid("disposition_at", "no retention policy covers this file")
    if until < end:
        raise problems.invalid("disposition_at", "a retention can be extended, not shortened")
    conn.execute(
        "INSERT INTO retention_extended (version, until) VALUES (?, ?)"
        " ON CONFLICT (version) DO UPDATE SET until = excluded.until",
        (row["version"], until),
    )


def covered(
    read: Read, by: str, assignment: int, *, current: bool, after: int, limit: int, now: int
) -> list[Row]:
    """The files whose current version an assignment covers; not `current`: its earlier versions.

    `by` is HELD or RETAINED.
    """
    chosen = "f.*" if current else "v.*"
    key = "f.id" if current else "v.id"
    which = "v.id = f.version" if current else "v.id != f.version"
    # Read functions number their arguments: the first is the moment.
    sql = by.replace(":now", "?1")
    return read(
        f"SELECT {chosen} {sql} AND {which} AND a.id = ?2 AND {key} > ?3 ORDER BY {key} LIMIT ?4",
        now,
        assignment,
        after,
        limit,
    )


def held_versions(
    read: Read,
    enterprise: int,
    *,
    now: int,
    policy: int | None = None,
    version: int | None = None,
    after: int = 0,
    limit: int = 1,
) -> list[Row]:
    """The versions that holds cover, of one policy or one version, by their ids.

    `assignments` are the numbers of what holds each, with commas between.
    """
    sql = HELD.replace(":now", "?1")
    return read(
        f"SELECT v.*, group_concat(a.id) AS assignments {sql} AND p.enterprise = ?2"
        " AND coalesce(p.id = ?3, true) AND coalesce(v.id = ?4, true) AND v.id > ?5"
        " GROUP BY v.id ORDER BY v.id LIMIT ?6",
        now,
        enterprise,
        policy,
        version,
        after,
        limit,
    )


@dataclass(frozen=True, slots=True)
class RetentionFilter:
    """Which retained versions are meant; what is None excludes none."""

    file: int | None = None
    version: int | None = None
    policy: int | None = None
    action: str | None = None
    ends_after: int | None = None
    ends_before: int | None = None


def retained_versions(
    read: Read, enterprise: int, wanted: RetentionFilter, *, now: int, after: int = 0, limit: int = 1
) -> list[Row]:
    """The versions that are retained, by their ids, each with the policy that keeps it longest, and `until`
    when that does, which is `FOREVER` where it has no end."""
    sql = RETAINED.replace(":now", "?1")
    # The greatest of these says which assignment it is of, too.
    last = f"max(CAST({_END} + {_WIDE} AS TEXT) || ' ' || CAST(a.id AS TEXT))"
    until, chosen = f"CAST(substr({last}, 1, 19) AS BIGINT) - {_WIDE}", f"CAST(substr({last}, 21) AS BIGINT)"
    of = "SELECT a.id FROM retention_assignment AS a JOIN retention_policy AS p ON p.id = a.policy"
    found = (
        f"SELECT v.id, {until} AS until, {chosen} AS chosen {sql} AND p.enterprise = ?2"
        " AND coalesce(v.file = ?3, true) AND coalesce(v.id = ?4, true) AND v.id > ?9 GROUP BY v.id"
        f" HAVING coalesce({until} > ?7, true) AND coalesce({until} < ?8, true) AND {chosen} IN ("
        f"{of} WHERE coalesce(p.id = ?5, true) AND coalesce(p.disposition_action = ?6, true))"
        " ORDER BY v.id LIMIT ?10"
    )
    return read(
        "SELECT v.*, p.id AS policy, p.name AS policy_name, p.days, p.disposition_action AS action,"
        f" a.assigned_at, found.until FROM ({found}) AS found JOIN version AS v ON v.id = found.id"
        " JOIN retention_assignment AS a ON a.id = found.chosen JOIN retention_policy AS p ON p.id = a.policy"
        " ORDER BY v.id",
        now,
        enterprise,
        wanted.file,
        wanted.version,
        wanted.policy,
        wanted.action,
        wanted.ends_after,
        wanted.ends_before,
        after,
        limit,
    )
