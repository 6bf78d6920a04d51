"""What an archive holds: the files and folders that were asked for, and what is below them, by their paths.

Two items of one name that come from different folders would be one in the archive; both get their ids into
their names.

Rule: everything is judged by itself, for whoever downloads it, at the time of the download; what they may not
have is left out and counted.
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

# Rights are found for so many at once.
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """A file, or a folder, whose path ends with a slash."""

    path: str
    modified: int  # in seconds
    sha1: str | None = None
    size: int = 0


@dataclass(slots=True)
class ArchivePlan:
    """The members in their order, and what is left out."""

    members: list[Member] = field(default_factory=list)
    files: int = 0
    skipped_files: int = 0
    skipped_folders: int = 0
    conflicts: list[list[dict[str, Any]]] = field(default_factory=list)


def make(
    read: Read, viewer: access_rights.Viewer, wanted: Sequence[int], *, most: int, now: int
) -> ArchivePlan:
    """The archive of these items for a viewer.  Long: for a thread."""
    found = {row["id"]: row for row in read(_TOP, json.dumps(list(wanted)))}
    top = [found[number] for number in wanted if number in found]
    plan = ArchivePlan()
    names = _names(plan, top)
    planner = _Planner(read, viewer, plan, most, now)
    planner.leave_out(len(wanted) - len(top))
    for row in top:
        above = {row["parent"]: ""}
        planner.add([row], above, names)
        if row["kind"] == ItemKind.FOLDER:
            planner.add(read(_BELOW, *tree_paths.below(row)), above, {})
    return plan


def _names(plan: ArchivePlan, top: Sequence[Row]) -> dict[int, str]:
    """What the items that were asked for are called in the archive."""
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
            told = {"id": str(row["id"]), "type": KIND_NAMES[ItemKind(row["kind"])]}
            told |= {"original_name": row["name"], "download_name": name}
            renamed.setdefault(key, []).append(told)
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

    def leave_out(self, count: int) -> None:
        self._plan.skipped_files += count

    def add(self, rows: Sequence[Row], above: dict[int, str], names: dict[int, str]) -> None:
        """Rows whose folders, by their ids and with their paths, are in `above` or come before them."""
        for start in range(0, len(rows), _PAGE):
            page = rows[start : start + _PAGE]
            self._view.look_up(page)
            for row in page:
                self._one(row, above, names.get(row["id"], row["name"]))

    def _one(self, row: Row, above: dict[int, str], name: str) -> None:
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
