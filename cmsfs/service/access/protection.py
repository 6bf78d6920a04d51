"""Refuses deletions that legal holds or retention policies forbid; the one place that decides this.

A version is held while a hold's assignment covers it, and retained until its last retention ends.  Coverage
is computed from the item's place, owner and metadata at the time of the check; before an item leaves a
covered place (a move, removed metadata), its coverage is recorded (`keep_...`), so it stays covered.

Rule: code that permanently deletes a version calls a `check_...` first, in the same transaction.
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

# A released hold protects a little longer: the API describes releasing as asynchronous.
RELEASE_MICROS = 1_000_000

DAY_MICROS = 24 * 3600 * 1_000_000
# The end of a retention that has none: later than any time.
FOREVER = 2**62
# Added to an end so that all have the same number of digits and sort correctly as text.
_WIDE = 2 * 10**18

# The versions of an enterprise (v, of file f) with the assignments (a, of policy p) that hold them.  Both
# take the argument :now.  A policy's dates limit only assignments to users.
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
# A missing date field counts as the day of the upload.  An extension moves the end.
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
    """Raise 403 if a trashed item, or anything trashed with it, is protected."""
    if row["kind"] == ItemKind.FILE:
        _check(conn, "f.id = :item", now=now, item=row["id"])
    elif row["kind"] == ItemKind.FOLDER:
        first, end = tree_paths.below(row)
        where = "f.path >= :first AND f.path < :end AND f.trash = :item"
        _check(conn, where, now=now, item=row["id"], first=first, end=end)


def check_version(conn: Connection, number: int, *, now: int) -> None:
    """Raise 403 if a version is protected."""
    _check(conn, "v.id = :version", now=now, version=number)


def check_owner_change(conn: Connection, item: int, first: str, end: str, *, now: int) -> None:
    """Raise 403 if an item, or anything whose path is in the range, is protected from a change of owner."""
    where = "(f.id = :item OR (f.path >= :first AND f.path < :end))"
    _check(conn, where, now=now, item=item, first=first, end=end)


def check_owner(conn: Connection, user: int, *, now: int) -> None:
    """Raise 403 if anything that a user owns is protected."""
    _check(conn, "f.owner = :owner", now=now, owner=user)


def _check(conn: Connection, where: str, **args: Any) -> None:
    for by, protector in ((HELD, "A legal hold"), (RETAINED, "A retention policy")):
        if conn.execute(f"SELECT 1 {by} AND {where} LIMIT 1", args).fetchone():
            raise problems.Refused(
                403, "forbidden_by_policy", f"{protector} protects this from being deleted."
            )


def record_coverage_before_move(conn: Connection, row: Row, path: str) -> None:
    """Record the coverage of an item's versions that its move below `path` would end."""
    first, end = tree_paths.below(row)
    args = {"old": row["path"], "new": path, "item": row["id"], "first": first, "end": end}
    for table, kept in (
        ("legal_hold_assignment", "legal_hold_kept"),
        ("retention_assignment", "retention_kept"),
    ):
        # Skipped if no policy is assigned to a folder, so that moves stay fast.
        if conn.execute(f"SELECT 1 FROM {table} WHERE type = 'folder' LIMIT 1").fetchone():
            conn.execute(f"INSERT INTO {kept} {_LEFT.format(table=table)} ON CONFLICT DO NOTHING", args)


def record_coverage_before_metadata_change(conn: Connection, item: int) -> None:
    """Record the coverage that a file's metadata gives, before the metadata changes."""
    conn.execute(
        f"INSERT INTO retention_kept SELECT a.id, v.id {_COVERED}"
        " AND a.type = 'metadata_template' AND f.id = :item ON CONFLICT DO NOTHING",
        {"item": item},
    )


def disposable(read: Read, *, now: int, after: int, limit: int) -> list[Row]:
    """Return the versions whose retention ended with their removal: `id`, `file`, and the file's `current`
    version.

    Of several retentions the one that ended last decides.  Others may still protect the version: check before
    deleting it.
    """
    anything = "SELECT 1 FROM retention_policy WHERE disposition_action = 'permanently_delete' LIMIT 1"
    if not read(anything):
        return []
    # The upload time is cheap to test, and most retention periods start there.
    ended = f"(a.start_key IS NOT NULL OR v.created_at <= ?1 - p.days * {DAY_MICROS}) AND {_END} <= ?1"
    # Of two with the same end, the one that does not delete sorts last.
    last = f"max({_END} * 2 + CASE p.disposition_action WHEN 'permanently_delete' THEN 0 ELSE 1 END)"
    sql = f"SELECT v.id, v.file, max(f.version) AS current {_COVERED} AND {ended} AND v.id > ?2 GROUP BY v.id"
    return read(f"{sql} HAVING {last} % 2 = 0 ORDER BY v.id LIMIT ?3", now, after, limit)


def ends(read: Read, rows: Sequence[Row]) -> dict[int, int]:
    """Return when the retention of each file's current version ends, by the file's id.

    Files without retention, or with an indefinite one, are left out.
    """
    versions = json.dumps([row["version"] for row in rows if row["version"] is not None])
    numbers = "SELECT CAST(value AS BIGINT) FROM json_each(?)"
    sql = f"SELECT f.id, max({_END}) AS until {_COVERED} AND v.id IN ({numbers}) GROUP BY f.id"
    return {row["id"]: row["until"] for row in read(sql, versions) if row["until"] < FOREVER}


def extend(conn: Connection, row: Row, until: int) -> None:
    """Retain a file's current version until then; 400 if it is not retained, or already for longer."""
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
    """Return the files whose current version an assignment covers; not `current`: whose earlier versions.

    `by` is HELD or RETAINED.
    """
    chosen = "f.*" if current else "v.*"
    key = "f.id" if current else "v.id"
    which = "v.id = f.version" if current else "v.id != f.version"
    # Read functions take numbered parameters: the first is the current time.
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
    """Return the versions that holds cover, of one policy or one version, by their ids.

    `assignments` are the ids of the covering assignments, separated by commas.
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
    """A filter of retained versions; None does not filter."""

    file: int | None = None
    version: int | None = None
    policy: int | None = None
    action: str | None = None
    ends_after: int | None = None
    ends_before: int | None = None


def retained_versions(
    read: Read, enterprise: int, wanted: RetentionFilter, *, now: int, after: int = 0, limit: int = 1
) -> list[Row]:
    """Return the retained versions by their ids, each with the policy that retains it longest.

    `until` is the end of that retention, `FOREVER` if it has none.
    """
    sql = RETAINED.replace(":now", "?1")
    # The greatest of these also names the assignment.
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
