"""Answers `cmsfs search` from the drive, like `.search`, also offline."""

from datetime import UTC, datetime

from cmsfs import errors
from cmsfs.ipc.searching import FoundItem, FoundItems
from cmsfs.vfs.virtual.search_results import FinderPort, Match


async def search(finder: FinderPort, query: str, limit: int) -> FoundItems:
    """Return up to `limit` matches.  Raises `UserError` for an invalid query, and as `FinderPort.begin`."""
    try:
        running = await finder.begin(query)
    except FileNotFoundError as error:
        raise errors.UserError(f"There is no {error.filename}.") from error
    found: list[Match] = []
    while len(found) < limit and not running.is_complete:
        found += await running.more()
    found = list(dict.fromkeys(found))
    return FoundItems(
        entries=[_told(match) for match in found[:limit]],
        total=max(running.total, len(found)),
        partial=running.partial,
    )


def _told(match: Match) -> FoundItem:
    moment = datetime.fromtimestamp(match.mtime_ns / 10**9, UTC)
    return FoundItem(type=match.kind.value, path=f"/{match.path}", size=match.size, modified_at=moment)
