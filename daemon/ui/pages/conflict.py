"""A conflict: both versions side by side with time, author, size and preview, and the choices."""

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette import responses

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.nodes import Node, NodeKind
from daemon.control import conflict_choice
from daemon.control.conflict_choice import Keep
from daemon.fetch import path_lookup
from daemon.ui import previews, rendering
from daemon.ui.desk import Form, Page, PageDesk, said
from daemon.ui.line_diff import DiffLine
from daemon.ui.previews import Preview

AUTHOR = "user.cms.modified_by"


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """One of the two versions."""

    path: str
    mark: str
    modified: datetime
    author: str
    size: int
    preview: Preview
    problem: str = ""  # why there is no preview


async def show(desk: PageDesk) -> responses.Response:
    copy = await _copy(desk, desk.query.get("path", ""))
    other = conflict_choice.original(desk.drive.state.db, copy)
    mine = await _version(desk, copy)
    theirs = None if other is None else await _version(desk, other)
    lines: list[DiffLine] | None = None
    if theirs is not None and mine.preview.text and theirs.preview.text:
        lines = await previews.difference(theirs.preview, mine.preview)
    return desk.page(
        "conflict.html", "Two versions", mine=mine, theirs=theirs, lines=lines, folder=copy.is_folder
    )


async def settle(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    drive = desk.drive
    path = given.get("path", "")
    copy = await _copy(desk, path)
    try:
        keep = Keep(given.get("keep", ""))
    except ValueError:
        raise errors.UserError("Nothing was chosen.") from None
    seen = given.get("mine", ""), given.get("theirs", "")
    name = await conflict_choice.settle(drive.fs, drive.hub, drive.state.db, copy, keep, seen)
    told = {
        Keep.MINE: f"{name} is your version now; the other one is among its versions, or in the trash.",
        Keep.THEIRS: "Your version is in the trash.",
        Keep.BOTH: f"Both are kept; yours is called {name}.",
    }
    return desk.to("attention", told[keep])


async def picture(desk: PageDesk) -> responses.Response:
    """Return an image, if it is of a type that browsers display."""
    drive = desk.drive
    node = await path_lookup.find(drive.state.db, drive.hydrator, desk.query.get("path", ""))
    kind, data = "", b""
    if node.kind is NodeKind.FILE and node.size <= previews.MOST_PICTURE:
        data = await previews.beginning(drive.fs, node, previews.MOST_PICTURE)
        kind = previews.picture_type(data)
    if not kind:
        return responses.PlainTextResponse("There is no picture.", 404, rendering.HEADERS)
    policy = {"Content-Security-Policy": "default-src 'none'; sandbox"}
    return responses.Response(data, headers=rendering.HEADERS | policy, media_type=kind)


async def _copy(desk: PageDesk, path: str) -> Node:
    """Return the conflict copy at a path, or the newest conflict copy of the file there."""
    drive = desk.drive
    node = await path_lookup.find(drive.state.db, drive.hydrator, path)
    if not (await drive.told_of(path)).conflict:
        known = (await drive.conflicts()).copies
        found = next((one.path for one in known if one.original == tree.path(drive.state.db, node.ino)), None)
        if found is None:
            raise errors.UserError(f"There is no conflict about {path}.")
        node = await path_lookup.find(drive.state.db, drive.hydrator, found)
    return node


async def _version(desk: PageDesk, node: Node) -> ShownVersion:
    drive = desk.drive
    preview, problem = Preview(), ""
    try:
        preview = await previews.preview(drive.fs, node)
    except OSError as error:
        problem = said(error)
    try:
        author = (await drive.fs.getxattr(node.ino, AUTHOR)).decode()
    except OSError:
        author = ""
    return ShownVersion(
        path=tree.path(drive.state.db, node.ino),
        mark=conflict_choice.mark(node),
        modified=datetime.fromtimestamp(node.mtime_ns / 10**9, UTC),
        author=author,
        size=node.size,
        preview=preview,
        problem=problem,
    )


PAGES: dict[str, Page] = {"conflict": show, "picture": picture}
FORMS: dict[str, Form] = {"settle": settle}
