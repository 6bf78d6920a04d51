"""A tree that is larger than a search can reach, and the services that a crawl may find."""

import pytest

from cmsfs import config
from cmsfs.service.content import items
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from daemon.listing import search_windows
from tests.support.daemon_drive import Drive

EMPTY = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
FOLDERS, FILES = 10, 130

search_only = pytest.mark.parametrize("settings", ["specification"], indirect=True)


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> config.Settings:
    """Those of an embedded service, or of the profile that a test names."""
    made = config.Settings(settle_seconds=0, network_seconds=5)
    if profile := getattr(request, "param", None):
        addresses = dict.fromkeys(("base_url", "upload_url", "auth_url"), "http://service.test")
        made = made.model_copy(update={"profile": profile} | addresses)
    return made


@pytest.fixture
async def large(service: Store, user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a search can reach, that being little here: folders of files, two files to a moment."""
    monkeypatch.setattr(search_windows, "MOST", 999)
    monkeypatch.setattr(search_windows, "_SAMPLE_AT", 800)

    def txn(conn: Connection) -> None:
        owner = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
        root = items.find(conn, owner["root"])
        number = 0
        for folder in range(FOLDERS):
            new = items.New(ItemKind.FOLDER, f"folder {folder:02}")
            row = items.insert(conn, root, new, by=user, now=10**15 + number)
            for file in range(FILES):
                number += 1
                one = items.New(ItemKind.FILE, f"file {file:03}", 0, EMPTY)
                items.insert(conn, row, one, by=user, now=10**15 + number // 2)

    await service.write(txn)


def counted(drive: Drive) -> int:
    return int(drive.db.row("SELECT count(*) AS n FROM node WHERE parent IS NOT NULL")["n"])
