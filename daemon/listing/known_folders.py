"""Decides whether a search for folders would only show those that programs have just listed.

A folder that is large is listed by itself first, in pages of a thousand; the search below it, for everything
else, begins with the folders, in pages of two hundred.  Its first page tells how many there are.

Rule: the other pages are left out only if the account has as many folders as were seen, and the search knows
of the newest of these; what a listing removes is confirmed by the service in any case (`deletion_check`).
"""

from cmsfs.models.content.entries import EntryPage
from cmsfs.replica.merge import listing_diff
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database


async def known_folders(db: Database, folder: Ino, generation: int, first: EntryPage) -> list[str] | None:
    """Return all folders below `folder`, if each was seen since this generation; `first` is the first page of
    a search for them, the last changed first.  None: its other pages must be read."""
    total = first.total_count
    if total <= len(first.entries):
        return None
    seen = await db.query(lambda conn: listing_diff.seen_folders(conn, folder, generation, limit=total + 1))
    page = {item.id: item.modified_at for item in first.entries}
    oldest = min((moment for moment in page.values() if moment is not None), default=None)
    if len(seen) != total or not page.keys() <= seen.keys() or oldest is None:
        return None
    # One that should be on the page and is not was not counted: the search does not know it yet, and counted
    # another one in its place.
    if any(moment is None or moment > oldest for id_, moment in seen.items() if id_ not in page):
        return None
    return list(seen)
