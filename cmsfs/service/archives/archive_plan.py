"""The contents of an archive: the requested files and folders, and everything below them, with their paths.

Requested items with the same name from different folders would collide; each gets its id appended to its
name.

Rule: rights are checked for each item, for the downloading user, at the time of the download; items without
the right are left out and counted.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from sqlite3 import Row
from typing import Any

from cmsfs.models import wire_names
from cmsfs.service import problems
from cmsfs.service.access import access_rights, locks
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind
from cmsfs.service.storage.store import Read

_COLUMNS = "id, kind, owner, parent, path, name, status, lock, sha1, size, content_modified_at, modified_at"
_TOP = f"""
  SELECT {_COLUMNS} FROM item
    WHERE status = 0 AND kind < 2 AND id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))
"""
_BELOW = f"""
  SELECT {_COLUMNS} FROM item WHERE path >= ? AND path < ? AND status = 0 AND kind < 2 ORDER BY path, name_key
"""

# Rows per batch of rights checks.
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder; the path of a folder ends with a slash."""

    path: str
    modified: int  # Unix time in seconds
    sha1: str | None = None
    size: int = 0


@dataclass(slots=True)
class ArchivePlan:
    """The members in archive order, and the counts of skipped items."""

    members: list[Member] = field(default_factory=list)
    files: int = 0
    skipped_files: int = 0
    skipped_folders: int = 0
    conflicts: list[list[dict[str, Any]]] = field(default_factory=list)


def make(
    read: Read, viewer: access_rights.Viewer, wanted: Sequence[int], *, most: int, now: int
) -> ArchivePlan:
    """Plan the archive of these items for a viewer.  Slow: call it in a thread."""
    found = {row["id"]: row for row in read(_TOP, json.dumps(list(wanted)))}
    top = [found[number] for number in wanted if number in found]
    plan = ArchivePlan()
    names = _assign_names(plan, top)
    planner = _Planner(read, viewer, plan, most, now)
    planner.skip(len(wanted) - len(top))
    for row in top:
        above = {row["parent"]: ""}
        planner.add([row], above, names)
        if row["kind"] == ItemKind.FOLDER:
            planner.add(read(_BELOW, *tree_paths.below(row)), above, {})
    return plan


def _assign_names(plan: ArchivePlan, top: Sequence[Row]) -> dict[int, str]:
    """Return the names of the requested items in the archive; records renamed ones as conflicts."""
    count = Counter(wire_names.name_key(row["name"]) for row in top)
    taken = set(count)
    names: dict[int, str] = {}
    renamed: dict[str, list[dict[str, Any]]] = {}
    for row in top:
        key, name = wire_names.name_key(row["name"]), row["name"]
        if count[key] > 1:
            parts = PurePosixPath(name)
            stem, end = (parts.stem, parts.suffix) if row["kind"] == ItemKind.FILE else (name, "")
            name = f"{stem} ({row['id']}){end}"
            while wire_names.name_key(name) in taken:
                stem += "_"
                name = f"{stem} ({row['id']}){end}"
            taken.add(wire_names.name_key(name))
            entry = {"id": str(row["id"]), "type": KIND_NAMES[ItemKind(row["kind"])]}
            entry |= {"original_name": row["name"], "download_name": name}
            renamed.setdefault(key, []).append(entry)
        names[row["id"]] = name
    plan.conflicts = list(renamed.values())
    return names


class _Planner:
    def __init__(
        self, read: Read, viewer: access_rights.Viewer, plan: ArchivePlan, most: int, now: int
    ) -> None:
        self._view = access_rights.View(read, viewer)
        self._viewer = viewer
        self._plan = plan
        self._most = most
        self._now = now

    def skip(self, count: int) -> None:
        self._plan.skipped_files += count

    def add(self, rows: Sequence[Row], above: dict[int, str], names: dict[int, str]) -> None:
        """Add rows; the path of each row's parent is in `above` or comes from an earlier row."""
        for start in range(0, len(rows), _PAGE):
            page = rows[start : start + _PAGE]
            self._view.look_up(page)
            for row in page:
                self._add_one(row, above, names.get(row["id"], row["name"]))

    def _add_one(self, row: Row, above: dict[int, str], name: str) -> None:
        plan, folder = self._plan, above.get(row["parent"])
        allowed = folder is not None and ItemRight.DOWNLOAD in self._view.rights(row)
        when = row["content_modified_at"] or row["modified_at"] or 0
        if row["kind"] == ItemKind.FOLDER:
            if not allowed:
                plan.skipped_folders += 1
                return
            above[row["id"]] = f"{folder}{name}/"
            plan.members.append(Member(f"{folder}{name}/", when // 1_000_000))
        elif not allowed or self._is_locked(row) or plan.files >= self._most:
            plan.skipped_files += 1
        else:
            plan.files += 1
            plan.members.append(Member(f"{folder}{name}", when // 1_000_000, row["sha1"], row["size"]))

    def _is_locked(self, row: Row) -> bool:
        try:
            locks.check_download(row, self._viewer.id, self._now)
        except problems.Refused:
            return True
        return False
