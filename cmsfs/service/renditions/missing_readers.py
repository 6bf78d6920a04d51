"""Documents that need a missing library: a drive-only installation has no document libraries.

When content cannot be read because a library is missing, the store records that; a service that later starts
with all libraries retries all content that could not be read, since the rows do not give the reason.
"""

from importlib import util
from sqlite3 import Connection

from cmsfs.service.storage.derived_files import TEXT, DerivedState
from cmsfs.service.storage.store import Store
from cmsfs.service.worker import extraction

# Import names of the libraries that the extra `server` installs.
LIBRARIES = ("pypdfium2", "docx", "pptx", "python_calamine", "odfdo", "striprtf", "lxml")

_NOTE = "documents-unread"


async def note_failure(store: Store, reason: str | None) -> None:
    """Record that content could not be read, if the reason is a missing library."""
    if reason == extraction.MISSING_LIBRARY:
        await store.shared.add_value(_NOTE, b"")


async def retry_failed(store: Store) -> None:
    """Queue content that could not be read again, if all libraries are installed now."""
    if store.shared.value(_NOTE) is None or any(util.find_spec(name) is None for name in LIBRARIES):
        return
    await store.write(_requeue)
    await store.shared.set_value(_NOTE, None)


def _requeue(conn: Connection) -> None:
    conn.execute(
        "INSERT INTO unindexed (item) SELECT item.id FROM rendition JOIN item USING (sha1)"
        " WHERE rendition.name = ? AND rendition.state = ? ON CONFLICT DO NOTHING",
        (TEXT, DerivedState.IMPOSSIBLE),
    )
    conn.execute("DELETE FROM rendition WHERE state = ?", (DerivedState.IMPOSSIBLE,))
