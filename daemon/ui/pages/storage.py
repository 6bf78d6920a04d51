"""Local storage: pinned items with their sizes, and the cache by folder, which can be freed."""

from dataclasses import dataclass

from starlette import responses

from cmsfs.replica import tree
from daemon.fetch import cache_usage, path_lookup
from daemon.ui.desk import Form, Page, PageDesk

# Maximum number of items shown, the largest first.
MOST = 200


@dataclass(frozen=True, slots=True)
class CachedItem:
    """An item of the folder, with the cached bytes of it and of everything below."""

    path: str
    name: str
    is_folder: bool
    bytes: int


async def show(desk: PageDesk) -> responses.Response:
    drive = desk.drive
    db = drive.state.db
    folder = await path_lookup.find(db, drive.hydrator, desk.query.get("path", "/"))
    if not folder.is_folder and folder.parent is not None:
        folder = tree.find(db, folder.parent) or folder
    ino = folder.ino
    await drive.state.blocks.flush()  # downloaded blocks are recorded in batches
    used = await db.query(lambda conn: cache_usage.below(conn, ino))
    found = []
    for item, nbytes in used.most_common(MOST):
        if (node := tree.find(db, item)) is not None:
            found.append(CachedItem(tree.path(db, item), node.name, node.is_folder, nbytes))
    path = tree.path(db, ino)
    return desk.page(
        "storage.html",
        "On this computer",
        folder=path,
        above=path.rpartition("/")[0] or "/",
        items=found,
        more=len(used) - len(found),
        status=await drive.status(),
        pins=await drive.pinned(),
    )


PAGES: dict[str, Page] = {"storage": show}
FORMS: dict[str, Form] = {}
