"""Checks tree and journal: every row has a parent, and every local change is still queued.

Rule: a row is put where a person finds it, never deleted, unless nothing can be sent or shown for it.
"""

from pathlib import Path
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.models import wire_names
from cmsfs.replica import kv_store, naming, tree
from cmsfs.replica.nodes import ROOT, TRASH, Ino
from cmsfs.replica.rows import node_rows, op_rows
from daemon.fsck.findings import Report

_UNREACHABLE = """
  WITH RECURSIVE reached(ino) AS (
    SELECT ?1 UNION ALL SELECT n.ino FROM node n JOIN reached r ON n.parent = r.ino WHERE n.ino <> ?1
  )
  SELECT ino, name, parent FROM node WHERE parent IS NOT NULL AND ino NOT IN (SELECT ino FROM reached)
"""
_NOT_IN_FOLDERS = """
  SELECT n.ino, n.name, n.parent FROM node n JOIN node p ON p.ino = n.parent WHERE p.kind <> 'folder'
"""
_OPS_OF_NOTHING = "SELECT seq, kind, ino FROM op WHERE ino NOT IN (SELECT ino FROM node)"
_DRAFTLESS = """
  SELECT ino, name, draft FROM node WHERE draft IS NOT NULL AND draft NOT IN (SELECT id FROM draft)
"""
_UNSENT = """
  SELECT n.ino, n.name FROM node n JOIN content c ON c.sha1 = n.sha1 AND c.dirty = 1
  WHERE n.kind = 'file' AND n.parent IS NOT NULL AND n.sha1 IS NOT n.base_sha1 AND NOT n.local
    AND NOT EXISTS (SELECT 1 FROM op WHERE op.ino = n.ino AND op.kind = 'upload')
  UNION ALL
  SELECT n.ino, n.name FROM node n WHERE n.draft IS NOT NULL AND n.parent IS NOT NULL AND NOT n.local
    AND NOT EXISTS (SELECT 1 FROM op WHERE op.ino = n.ino AND op.kind = 'upload')
"""
_UNMADE = """
  SELECT ino, name FROM node WHERE kind = 'folder' AND parent IS NOT NULL AND remote_id IS NULL AND NOT local
    AND NOT EXISTS (SELECT 1 FROM op WHERE op.ino = node.ino AND op.kind = 'mkdir')
"""


def check(conn: Connection, report: Report) -> None:
    """Everything about rows; with `repair` inside the caller's transaction."""
    _roots(conn, report)
    lost = {row["ino"]: row for row in conn.execute(_NOT_IN_FOLDERS)}
    lost |= {row["ino"]: row for row in conn.execute(_UNREACHABLE, (ROOT,))}
    # Of what hangs together only the uppermost is moved.
    for ino, row in lost.items():
        above = row["parent"]
        if above in lost and not _leads_to(lost, above, ino) and _is_folder(conn, above):
            continue
        report.add(
            "tree",
            f"{row['name']!r} is in no folder.",
            "It is shown in the drive's root until its location at the service is known.",
        )
        if report.repair:
            _to_root(conn, ino, row["name"])
    for row in conn.execute(_OPS_OF_NOTHING).fetchall():
        report.add("journal", f"A pending change ({row['kind']}) belongs to no item.", "It is dropped.")
        if report.repair:
            op_rows.delete(conn, row["seq"])
    for row in conn.execute(_DRAFTLESS).fetchall():
        report.add(
            "drafts",
            f"The local changes to {row['name']!r} have lost their record.",
            "They are moved to recovered files; the file reverts to its previous contents.",
            lost=True,
        )
        if report.repair:
            node_rows.forget_draft(conn, row["draft"])
    for sql, kind, said in (
        (_UNSENT, ops.OpKind.UPLOAD, "The bytes of {!r} are not at the service, and no upload is pending."),
        (
            _UNMADE,
            ops.OpKind.MKDIR,
            "The folder {!r} is not at the service, and no change is pending to create it.",
        ),
    ):
        for row in conn.execute(sql).fetchall():
            report.add("journal", said.format(row["name"]), "It is uploaded after the next mount.")
            if report.repair:
                ops.record(conn, row["ino"], kind, due_ns=0)


def check_drafts(conn: Connection, drafts: Path, report: Report) -> None:
    """Drafts whose file has not what it should have; the next start cuts them to what there is."""
    rows = conn.execute(
        "SELECT d.id, n.name, (SELECT max(value ->> 1) FROM json_each(d.extents)) AS held"
        " FROM draft d JOIN node n ON n.draft = d.id WHERE d.data IS NULL"
    )
    for row in rows.fetchall():
        path = drafts / f"{row['id']}.draft"
        there = path.stat().st_size if path.exists() else 0
        if (row["held"] or 0) > there:
            report.add(
                "drafts",
                f"Of what was written to {row['name']!r}, {row['held'] - there} bytes are gone.",
                "The rest is kept and uploaded.",
                lost=True,
            )


def schedule_relisting(conn: Connection) -> None:
    """Have everything listed anew with the next mount: what was repaired finds its place again."""
    tree.mark_all_unlisted(conn)
    for key in (kv_store.CHANGES_SINCE, kv_store.DELETED_SINCE, kv_store.CRAWL):
        kv_store.drop(conn, key)


def _roots(conn: Connection, report: Report) -> None:
    for ino, name, mode, remote_id in ((ROOT, "", 0o755, wire_names.ROOT_ID), (TRASH, ".trash", 0o700, None)):
        if conn.execute("SELECT 1 FROM node WHERE ino = ?", (ino,)).fetchone() is not None:
            continue
        report.add(
            "tree", "The drive's root is missing." if ino == ROOT else "The trash is missing.", "Made anew."
        )
        if report.repair:
            node_rows.insert_fixed(conn, ino, name=name, mode=mode, remote_id=remote_id)


def _leads_to(lost: dict[Ino, object], start: Ino, ino: Ino) -> bool:
    """Whether going up from `start` comes to `ino`: then they are a ring, which must be cut somewhere."""
    seen: set[Ino] = set()
    current = start
    while current in lost and current not in seen:
        if current == ino:
            return min(seen | {ino}) == ino
        seen.add(current)
        current = lost[current]["parent"]  # type: ignore[index]
    return False


def _is_folder(conn: Connection, ino: Ino) -> bool:
    row = conn.execute("SELECT kind FROM node WHERE ino = ?", (ino,)).fetchone()
    return row is not None and row["kind"] == "folder"


def _to_root(conn: Connection, ino: Ino, name: str) -> None:
    tree.place(conn, ino, ROOT, naming.distinct(name, f"recovered {ino}"))
