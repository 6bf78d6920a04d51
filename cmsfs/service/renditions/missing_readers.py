"""Documents that wait for a library: what reads documents is not installed where only a drive is.

A content that could not be read for want of one is noted as such; a service that starts with all of them has
everything read that was not to be had, since no row says why it was not.
"""

from importlib import util
from sqlite3 import Connection

from cmsfs.service.storage.derived_files import TEXT, DerivedState
from cmsfs.service.storage.store import Store
from cmsfs.service.worker import extraction

# What the extra `server` brings, as it is imported.
LIBRARIES = ("pypdfium2", "docx", "pptx", "python_calamine", "odfdo", "striprtf", "lxml")

_NOTE = "documents-unread"


async def note(store: Store, reason: str | None) -> None:
    """A content could not be read for this reason; note it if a library is what was missing."""
    if reason == extraction.NO_READER:
        await store.shared.add_value(_NOTE, b"")


async def catch_up(store: Store) -> None:
    """Put into the backlog what was not read, if it can be read by now."""
    if store.shared.value(_NOTE) is None or any(util.find_spec(name) is None for name in LIBRARIES):
        return
    await store.write(_ask_again)
    await store.shared.set_value(_NOTE, None)


def _ask_again(conn: Connection) -> None:
    conn.execute(
        "INSERT INTO unindexed (item) SELECT item.id FROM rendition JOIN item USING (sha1)"
        " WHERE rendition.name = ? AND rendition.state = ? ON CONFLICT DO NOTHING",
        (TEXT, DerivedState.IMPOSSIBLE),
    )
    conn.execute("DELETE FROM rendition WHERE state = ?", (DerivedState.IMPOSSIBLE,))
