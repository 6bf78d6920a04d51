"""Deletions that the service refuses: EPERM where that was to be expected, back at once where it was not."""

from typing import Any

import httpx
import pytest
import trio
import trio.testing

from cmsfs import config, errors
from cmsfs.models.enterprise import retention
from cmsfs.replica import tree
from daemon.content import delete_guard
from daemon.desktop.notifications import Notifications
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import attempt
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

pytestmark = pytest.mark.administers


async def lock(other: Remote, file_id: str) -> None:
    """Somebody else locks a file."""
    await other.client.locks.lock(file_id)
    sql = "UPDATE item SET lock = json_set(lock, '$.by', (SELECT max(id) FROM account)) WHERE id = ?"
    await other.store.write(lambda conn: conn.execute(sql, (int(file_id),)))


class Strict(httpx.AsyncBaseTransport):
    """A service whose policies keep what they protect out of the trash."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and "/files/" in request.url.path:
            self.refused += 1
            body = {
                "type": "error",
                "status": 403,
                "code": "forbidden_by_policy",
                "message": "A hold says no.",
            }
            return httpx.Response(403, json=body)
        return await self.inner.handle_async_request(request)


async def test_a_refused_deletion_is_back_at_once(
    drive: Drive, other: Remote, stranger: int, settings: config.Settings, expect_log: ExpectLog
) -> None:
    expect_log("the item is restored")
    folder = await other.folder("d")
    number = await other.file("f", b"kept", folder)
    await drive.names("d")
    await lock(other, number)  # and the drive has not heard of it
    assert await attempt(drive.unlink("d/f")) == "ok"
    assert await drive.names("d") == []
    await drive.sync()
    assert await drive.names("d") == ["f"]
    assert await drive.read("d/f") == b"kept"
    assert drive.ops() == []
    told: list[str] = []

    async def show(summary: str, body: str, **kind: Any) -> int:
        told.append(f"{summary}. {body}")
        return 1

    agents = drive.agents
    notices = Notifications(
        *(settings, drive.db, agents.health, lambda: "", show),
        returned=agents.delete_guard.returned,
    )
    await notices.look()
    assert told and told[0].startswith("A deletion was rejected. /d/f: The service does not allow this: ")


async def test_refused_deletion_is_refused_again_at_once(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("the item is restored")
    expect_log("cannot be deleted: The service does not allow this: A hold says no")
    folder = await other.folder("d")
    for name in ("f", "g", "h"):
        await other.file(name, b"1", folder)
    await drive.names("d")
    lenient, network.inner = network.inner, Strict(network.inner)
    assert await attempt(drive.unlink("d/f")) == "ok"
    await drive.sync()
    assert await attempt(drive.unlink("d/f")) == "EPERM"
    assert await attempt(drive.unlink("d/g")) == "EPERM"
    network.inner = lenient
    # Meanwhile somebody has said something of it: it is the same file still.
    await other.client.items.describe("file", (await other.find("h")).id, description="new")
    assert await attempt(drive.unlink("d/h")) == "ok"
    assert await drive.names("d") == ["f", "g"]
    assert drive.ops() == []
    assert [item.name for item in await other.everything() if item.type == "file"] == ["f", "g"]


async def test_unprotected_deletions_ask_nothing(drive: Drive, other: Remote, network: Network) -> None:
    folder = await other.folder("d")
    for number in range(20):
        await other.file(f"f{number}", b"1", folder)
    await drive.names("d")
    network.is_down = True
    for number in range(20):
        assert await attempt(drive.unlink(f"d/f{number}")) == "ok"
    assert len(drive.ops()) == 20


async def hold(drive: Drive, other: Remote, *names: str) -> None:
    """Files in a held folder, and the drive knows that it is."""
    folder = await other.folder("held")
    for name in names:
        await other.file(name, b"1", folder)
    policy = await other.client.legal_holds.create("Case 42")
    await other.client.legal_holds.assign(policy.id, "folder", folder)
    await drive.names()
    await drive.names("held")
    assert await drive.fs.getxattr(await drive.ino("held"), "user.cms.hold") == b"Case 42"


async def test_held_item_may_enter_trash(drive: Drive, other: Remote, network: Network) -> None:
    await hold(drive, other, "a", "b", "c")
    number = (await other.find("a")).id
    assert await attempt(drive.unlink("held/a")) == "ok"
    assert drive.ops() == []
    assert network.count("DELETE", "/files/") == 1
    assert await attempt(drive.unlink("held/b")) == "ok"
    assert [op[0] for op in drive.ops()] == ["trash"]
    await drive.sync()
    assert [item.name for item in await other.everything()] == ["held", "c"]
    with pytest.raises(Exception, match="legal hold protects"):
        await other.client.items.purge("file", number)


async def test_held_item_of_strict_service_is_refused_at_once(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("cannot be deleted: The service does not allow this: A hold says no")
    await hold(drive, other, "a", "b")
    network.inner = strict = Strict(network.inner)
    for name in ("a", "b"):
        assert await attempt(drive.unlink(f"held/{name}")) == "EPERM"
    assert strict.refused == 2
    assert await drive.names("held") == ["a", "b"]
    assert drive.ops() == []


async def test_a_deletion_soon_after_the_start_waits_for_policies(
    drive: Drive, other: Remote, network: Network, nursery: trio.Nursery, expect_log: ExpectLog
) -> None:
    expect_log("cannot be deleted: The service does not allow this: A hold says no")
    folder = await other.folder("held")
    for name in ("a", "b"):
        await other.file(name, b"1", folder)
    policy = await other.client.legal_holds.create("Case 42")
    await other.client.legal_holds.assign(policy.id, "folder", folder)
    await drive.names("held")
    nursery.start_soon(drive.agents.item_details.run)
    await trio.testing.wait_all_tasks_blocked()
    assert network.count("GET", "/legal_hold_policies") == 0
    network.inner = Strict(network.inner)
    async with trio.open_nursery() as both:
        for name in ("a", "b"):
            both.start_soon(refused, drive, f"held/{name}")
    assert await drive.names("held") == ["a", "b"]
    assert network.count("GET", "/legal_hold_policies") == 1


async def refused(drive: Drive, path: str) -> None:
    assert await attempt(drive.unlink(path)) == "EPERM"


async def test_retained_file_accepts_new_versions(drive: Drive, other: Remote) -> None:
    folder = await other.folder("d")
    number = await other.file("f", b"first", folder)
    policy = await other.client.retention.create(
        retention.NewRetentionPolicy(
            policy_name="Ten years",
            policy_type="finite",
            disposition_action="remove_retention",
            retention_length=3650,
        )
    )
    await other.client.retention.assign(policy.id, retention.RetentionAssignTo(type="folder", id=folder))
    await drive.names("d")
    await drive.write("d/f", b"second")
    await drive.sync()
    assert await other.read("f") == b"second"
    assert await other.versions(number) == 2
    (version,) = await other.client.versions.past(number)
    with pytest.raises(Exception, match="retention policy protects"):
        await other.client.versions.delete(number, version.id)


@pytest.mark.parametrize("folder", ["", "Project"], ids=["account", "folder"])
async def test_file_that_is_not_found_is_left_to_the_journal(
    starting: Starting, other: Remote, network: Network, expect_log: ExpectLog, folder: str
) -> None:
    """It may be away with its folder, which may come back: then it is deleted as well."""
    expect_log("the item is restored")
    project = await other.folder("Project")
    docs = await other.folder("docs", project)
    number = await other.file("f", b"1", docs)
    if folder:
        async with starting(agents=(), folder=folder) as before:
            await before.db.write(lambda conn: tree.set_root(conn, project))
    place = "docs" if folder else "Project/docs"
    others: dict[str, Any] = {"folder": folder} if folder else {}
    async with starting(agents=("health", "push", "fs"), **others) as drive:
        assert await drive.names(place) == ["f"]
        node = drive.node(await drive.ino(f"{place}/f"))
        # So that the next one is made while the program waits.
        drive.agents.delete_guard.deletion_refused(node, errors.Forbidden(403, "forbidden", "No."))
        await other.client.items.delete("folder", docs, recursive=True)
        deleting, deleted = network.gate("DELETE", f"/files/{number}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.unlink, f"{place}/f")
            await deleting.wait()
            await other.client.items.restore("folder", docs)
            deleted.set()
        await drive.sync()
        assert await drive.names(place) == []
    assert await other.paths() == ["Project/", "Project/docs/"]


async def test_page_from_before_a_deletion_that_was_waited_for_brings_nothing_back(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log("the item is restored")
    number = await other.file("f", b"1")
    await drive.names()
    node = drive.node(await drive.ino("f"))
    drive.agents.delete_guard.deletion_refused(node, errors.Forbidden(403, "forbidden", "No."))
    await other.client.items.describe("file", number, description="new")
    before = await other.find("f")
    await drive.unlink("f")
    assert drive.ops() == [] and await other.paths() == []
    await drive.agents.remote_updates.apply([before])
    assert await drive.names() == []


async def test_deletion_that_is_reported_before_its_answer_is_one(
    drive: Drive, other: Remote, network: Network
) -> None:
    await hold(drive, other, "a")
    answered, release = network.gate("DELETE", "/files/")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.unlink, "held/a")
        await answered.wait()
        await drive.poll()
        assert await drive.names("held") == []
        release.set()
    await drive.sync()
    assert await drive.names("held") == []
    assert await other.paths() == ["held/"]


async def test_unanswered_check_leaves_deletion_to_journal(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_guard, "WAIT_SECONDS", 0.05)
    await hold(drive, other, "a")
    arrived, go = network.gate("DELETE", "/files/", before=True)
    assert await attempt(drive.unlink("held/a")) == "ok"
    assert arrived.is_set()
    assert [op[0] for op in drive.ops()] == ["trash"]
    go.set()


async def test_undeletable_replaced_file_returns_beside_other(
    drive: Drive, other: Remote, stranger: int, expect_log: ExpectLog
) -> None:
    expect_log("the item is restored")
    number = await other.file("a", b"theirs")
    await other.file("b", b"moved")
    await drive.names()
    await lock(other, number)
    await drive.rename("b", "a")
    assert await drive.names() == ["a"]
    await drive.sync()
    names = await drive.names()
    assert len(names) == 2
    assert names[1].startswith("a (conflicted copy of ")
    assert (await drive.read("a"), await drive.read(names[1])) == (b"theirs", b"moved")
    assert sorted(item.name for item in await other.everything()) == names
