"""Search at the service, with the syntax of `cmsfs search` and the drive's `.search` folder."""

from starlette import responses

from cmsfs import errors
from cmsfs.vfs.virtual.search_results import Match
from daemon.content.local_search import LocalSearch
from daemon.content.search import RemoteSearch
from daemon.ui.desk import Form, Page, PageDesk, said

MOST = 100


async def show(desk: PageDesk) -> responses.Response:
    words = desk.query.get("q", "").strip()
    found: list[Match] = []
    total, problem = 0, ""
    if words:
        drive = desk.drive
        try:
            state = drive.state
            local = LocalSearch(state.db, state.blocks, state.drafts)
            finding = RemoteSearch(state.db, drive.client, drive.hydrator, drive.health, local)
            search = await finding.begin(words)
            while len(found) < MOST and not search.is_complete:
                found += await search.more()
            total = search.total
        except (errors.CmsfsError, OSError) as error:
            problem = said(error)
    return desk.page("search.html", "Search", words=words, found=found[:MOST], total=total, problem=problem)


PAGES: dict[str, Page] = {"search": show}
FORMS: dict[str, Form] = {}
