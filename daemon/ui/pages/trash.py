"""The service's trash: its items, which can be restored or permanently deleted."""

from dataclasses import dataclass
from datetime import datetime

from starlette import responses

from cmsfs import errors
from cmsfs.models.content import items
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import ROOT, Ino, NodeKind, Remote
from daemon.fetch import path_lookup
from daemon.ui.desk import Form, Page, PageDesk

# Maximum number of items shown.
MOST = 500


@dataclass(frozen=True, slots=True)
class ShownTrashed:
    """An item in the trash."""

    kind: str
    id: str
    path: str
    size: int
    at: datetime | None
    by: str


async def show(desk: PageDesk) -> responses.Response:
    trash = desk.drive.trash
    await trash.settle()
    pages, found = trash.pages(), list[Remote]()
    while len(found) < MOST and (page := await pages.next()):
        found += page
    desk.browser.trashed = {one.key: one for one in found[:MOST]}
    shown = [_shown(one, trash.original_path(one)) for one in found[:MOST]]
    return desk.page("trash.html", "Trash", found=shown, is_cut=len(found) > MOST, is_whole=trash.is_whole)


async def restore(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    drive, item = desk.drive, _meant(desk, given)
    parent = await _folder(desk, drive.trash.original_path(item))
    ino = await drive.trash.restore(item, parent, naming.file_name(item.kind, item.name))
    desk.browser.trashed.pop(item.key, None)
    return desk.to("trash", f"Restored: {tree.path(drive.state.db, ino)}.")


async def purge(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    item = _meant(desk, given)
    await desk.drive.trash.purge(item)
    desk.browser.trashed.pop(item.key, None)
    return desk.to("trash", f"{item.name} was deleted for good.")


def _shown(one: Remote, path: str) -> ShownTrashed:
    item = one.item
    by = item.modified_by if isinstance(item, items.File | items.Folder | items.WebLink) else None
    who = (by.name or by.login or "") if by is not None else ""
    return ShownTrashed(one.kind.value, one.id, path, one.size, getattr(item, "trashed_at", None), who)


def _meant(desk: PageDesk, given: dict[str, str]) -> Remote:
    """Return the item of a button, as this browser was shown it."""
    try:
        return desk.browser.trashed[NodeKind(given.get("kind", "")), given.get("id", "")]
    except (KeyError, ValueError):
        raise errors.UserError("This item is not in the trash any more.") from None


async def _folder(desk: PageDesk, path: str) -> Ino:
    """Return the folder that it was in, or the root if that is gone."""
    above = path.rpartition("/")[0]
    if not path.startswith("/") or not above:
        return ROOT
    try:
        found = await path_lookup.find(desk.drive.state.db, desk.drive.hydrator, above)
    except errors.UserError:
        return ROOT
    return found.ino if found.is_folder else ROOT


PAGES: dict[str, Page] = {"trash": show}
FORMS: dict[str, Form] = {"restore": restore, "purge": purge}
