"""Folders that are shared with a group: on the drives of its members, for as long as they are in it."""

from sqlite3 import Connection

import pytest

from cmsfs.models.enterprise import groups as models_groups
from cmsfs.service.groups import groups, memberships
from cmsfs.service.provisioning import parties
from cmsfs.service.storage.store import Store
from tests.support.daemon_drive import Remote, Starting


@pytest.mark.administers
async def test_a_groups_folder_comes_and_goes_with_the_membership(
    starting: Starting, ben: Remote, other: Remote, service: Store, user: int, stranger: int
) -> None:
    folder = await ben.folder("Team")
    await ben.file("plan", b"Ben's plan", folder)

    def make(conn: Connection) -> int:
        now, who = service.now(), conn.execute("SELECT * FROM account WHERE id = ?", (stranger,)).fetchone()
        group = groups.insert(conn, who["enterprise"], models_groups.NewGroup(name="Builders"), now=now)
        row = conn.execute("SELECT * FROM item WHERE id = ?", (folder,)).fetchone()
        parties.share(conn, row, who["enterprise"], {"user_group": group["id"]}, "viewer", now=now)
        return int(group["id"])

    group = await service.write(make)

    def enter(conn: Connection) -> int:
        row = conn.execute("SELECT * FROM user_group WHERE id = ?", (group,)).fetchone()
        who = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
        made = memberships.add_member(conn, row, who, role=None, by=stranger, now=service.now())
        assert made is not None
        return int(made["id"])

    async with starting(feed="events") as drive:
        assert "Team" not in await drive.names()
        await drive.poll()
        number = await service.write(enter)
        await drive.poll()
        assert "Team" in await drive.names()
        assert await drive.names("Team") == ["plan"]
        assert await drive.read("Team/plan") == b"Ben's plan"
        await service.write(lambda conn: memberships.remove(conn, number, by=stranger, now=service.now()))
        await drive.poll()
        assert "Team" not in await drive.names()
