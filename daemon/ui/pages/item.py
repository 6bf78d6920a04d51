"""A file or folder: its sync status, whether it is available offline, and its earlier versions."""

from starlette import responses

from cmsfs import errors
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.runtime import threads
from cmsfs.vfs.virtual.versions import PastVersion
from daemon.content.versions import VersionHistory
from daemon.fetch import path_lookup
from daemon.ui import previews
from daemon.ui.desk import Form, Page, PageDesk, said


async def show(desk: PageDesk) -> responses.Response:
    path = desk.query.get("path", "/")
    status = await desk.drive.told_of(path)
    node = await _node(desk, path)
    past: list[PastVersion] = []
    problem = ""
    if node.kind is NodeKind.FILE and node.remote_id is not None:
        try:
            past = list(await _history(desk).past(node.remote_id))
        except (errors.CmsfsError, OSError) as error:
            problem = said(error)
    return desk.page("item.html", status.path, item=status, past=past, problem=problem)


async def version(desk: PageDesk) -> responses.Response:
    """Show a preview of an earlier version."""
    path = desk.query.get("path", "")
    node, one = await _past(desk, path, desk.query.get("id", ""))
    data = await _history(desk).beginning(node.remote_id or "", one, previews.MOST_TEXT)
    is_cut = one.size > previews.MOST_TEXT
    text = await threads.run_sync(previews.text_of, data, is_cut)
    return desk.page("version.html", f"{node.name}, earlier", path=path, one=one, text=text, is_cut=is_cut)


async def restore(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    node, one = await _past(desk, path, given.get("id", ""))
    await _history(desk).promote(node.remote_id or "", one.id)
    await desk.drive.poll(full=False)
    return desk.to("item", "That version is the current one now; the one before it is kept.", path=path)


async def pin(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    told = await desk.drive.pin(path)
    return desk.to("item", f"{path} is kept on this computer. {told}".strip(), path=path)


async def unpin(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    await desk.drive.unpin(path)
    return desk.to(_page(given), f"{path} is no longer kept on this computer.", path=path)


async def free(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    freed = await desk.drive.free(path, unpin=bool(given.get("unpin")))
    stay = [
        f"{count:,} {why}"
        for count, why in (
            (freed.unsent, "not uploaded yet"),
            (freed.pinned, "pinned"),
            (freed.in_use, "in use"),
        )
        if count
    ]
    words = f"{freed.bytes / 1e6:,.1f} MB of {freed.files:,} files are free again."
    stays = f" These stay: {', '.join(stay)}." if stay else ""
    return desk.to(_page(given), words + stays, path=given.get("folder", path))


def _page(given: dict[str, str]) -> str:
    return "storage" if given.get("page") == "storage" else "item"


async def _node(desk: PageDesk, path: str) -> Node:
    return await path_lookup.find(desk.drive.state.db, desk.drive.hydrator, path)


def _history(desk: PageDesk) -> VersionHistory:
    return VersionHistory(desk.drive.client, desk.drive.health)


async def _past(desk: PageDesk, path: str, version_id: str) -> tuple[Node, PastVersion]:
    """Return a file and one of its earlier versions."""
    node = await _node(desk, path)
    if node.kind is NodeKind.FILE and node.remote_id is not None:
        for one in await _history(desk).past(node.remote_id):
            if one.id == version_id:
                return node, one
    raise errors.UserError(f"{path} has no such version.")


PAGES: dict[str, Page] = {"item": show, "version": version}
FORMS: dict[str, Form] = {"pin": pin, "unpin": unpin, "free": free, "promote": restore}
