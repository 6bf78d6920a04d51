"""Push: requests whose answers are missing, and that are sent again or not needed any more."""

from typing import Any

import httpx
import pytest
import trio
import trio.testing

from cmsfs.vfs.tree.renaming import EXCHANGE
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

LATER = 3600.0


async def failed(drive: Drive, attempts: int) -> None:
    async def is_so() -> bool:
        return bool(drive.db.rows("SELECT * FROM op WHERE attempts >= ?", attempts))

    assert await drive.agents.push.until(is_so, seconds=20)


def sent(drive: Drive) -> int:
    return len(drive.db.rows("SELECT * FROM unheard"))


@pytest.mark.parametrize("what", ["version", "file", "folder"])
async def test_attempts_without_an_answer_are_one_request(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """And it stays known when a later attempt did not reach the service."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", LATER)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", LATER)
    if what == "version":
        await drive.write("f", b"one")
        await drive.sync()
    part = "/folders" if what == "folder" else "/content"
    for attempt in (1, 2):
        # The client asks twice each time; what was done the first time, the service refuses the second.
        network.instead = lambda request: httpx.Response(503) if request.method == "POST" else None
        if attempt == 1:
            await (drive.mkdir("f") if what == "folder" else drive.write("f", b"two"))
        else:
            await drive.agents.push.retry_all()
        await failed(drive, attempt)
        assert sent(drive) == 1
    network.instead = None
    network.is_down = True
    await drive.agents.push.retry_all()
    await failed(drive, 3)
    assert sent(drive) == 1
    network.is_down = False
    drive.agents.health.suspect()
    await drive.sync()
    assert sent(drive) == 0
    assert await other.paths() == ["f/" if what == "folder" else "f"]
    assert network.count("POST", part)


@pytest.mark.parametrize("is_folder", [True, False])
async def test_item_under_a_former_name_is_not_left_when_somebody_has_made_the_same(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", LATER)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", LATER)
    await drive.names()
    arrived, go = network.gate("POST", "/folders" if is_folder else "/content", before=True)
    network.lose_answer("POST", "/folders" if is_folder else "/content")
    await (drive.mkdir("old") if is_folder else drive.write("old", b"x"))
    with trio.fail_after(20):
        await arrived.wait()
    go.set()
    await failed(drive, 1)
    await drive.rename("old", "new")
    made = await (other.folder("new") if is_folder else other.file("new", b"x"))
    await drive.poll()
    assert drive.node(await drive.ino("new")).remote_id == made
    await drive.sync()
    await drive.poll()
    assert await other.paths() == [("new/" if is_folder else "new")]
    assert await drive.names() == ["new"]
    assert drive.ops() == [] and sent(drive) == 0


async def test_name_that_is_refused_for_an_item_that_is_gone_is_tried_again(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts that failed for other reasons do not make it a conflict copy."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 0.001)
    refused = {"type": "error", "status": 409, "code": "item_name_in_use", "message": "In use."}
    answers = [httpx.Response(503) for _ in range(8)]
    answers.append(httpx.Response(409, json=refused | {"context_info": {"conflicts": GONE}}))

    def instead(request: httpx.Request) -> httpx.Response | None:
        return answers.pop(0) if request.method == "POST" and answers else None

    network.instead = instead
    await drive.write("f", b"one")
    await drive.sync()
    assert answers == []
    assert await other.paths() == await drive.names() == ["f"]


GONE = {"type": "file", "id": "999999", "name": "f"}


async def test_folder_that_appears_before_it_is_asked_for_is_not_asked_for(
    starting: Starting, other: Remote, network: Network
) -> None:
    """It ends the operation; nobody would find out about a request that is sent after that."""
    async with starting(agents=("health", "fs")) as drive, trio.open_nursery() as nursery:
        await drive.mkdir("d")
        await other.folder("d")
        found = await other.find("d")
        arrived, _ = network.gate("POST", "/folders", before=True)
        token, before, begun = trio.lowlevel.current_trio_token(), drive.db.on_transaction_end, trio.Event()

        def begin() -> None:
            if not begun.is_set() and drive.db.rows("SELECT 1 FROM op WHERE state = 'running'"):
                # Somebody has read a page, and applies it as the operation begins.
                begun.set()
                nursery.start_soon(drive.agents.remote_updates.apply, [found])

        def ended() -> None:
            token.run_sync_soon(begin)
            if before is not None:
                before()

        drive.db.on_transaction_end = ended
        nursery.start_soon(drive.agents.push.run)
        with trio.fail_after(10):
            await begun.wait()

        async def is_done() -> bool:
            return not drive.ops() or arrived.is_set()

        assert await drive.agents.push.until(is_done, seconds=10)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not arrived.is_set()
        assert (drive.ops(), sent(drive)) == ([], 0)
        nursery.cancel_scope.cancel()
    assert await other.paths() == ["d/"]


@pytest.fixture
def moved_twice(drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`await moved_twice(first, then, when)`: a file "f" gets two places one after the other, and is synced;
    the answer to the first change is lost."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", LATER)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", LATER)

    async def move(first: str, then: str, when: str) -> None:
        await drive.write("f", b"x")
        await drive.mkdir("folder")
        await drive.sync()
        arrived, go = network.gate("PUT", "/files/", before=True)
        network.lose_answer("PUT", "/files/")
        await drive.rename("f", first)
        with trio.fail_after(20):
            await arrived.wait()
        if when.startswith("before"):
            await drive.rename(first, then)
        go.set()
        await failed(drive, 1)
        assert first in await other.paths()
        if when.startswith("after"):
            await drive.rename(first, then)
        await drive.agents.push.retry_all()
        await drive.sync()
        await drive.poll()
        await drive.sync()
        assert await drive.read(then) == b"x"
        assert drive.ops() == []

    return move


@pytest.mark.parametrize("when", ["before its answer is lost", "after its answer was lost"])
@pytest.mark.parametrize("there", ["g", "folder/f"])
async def test_change_of_place_without_an_answer_that_is_taken_back_is_taken_back_at_the_service(
    drive: Drive, other: Remote, moved_twice: Any, when: str, there: str
) -> None:
    await moved_twice(there, "f", when)
    assert sorted(await drive.names()) == ["f", "folder"]
    assert sorted(await other.paths()) == ["f", "folder/"]


@pytest.mark.parametrize("when", ["before its answer is lost", "after its answer was lost"])
@pytest.mark.parametrize(("first", "then"), [("g", "folder/f"), ("folder/f", "g")])
async def test_another_change_of_place_after_one_without_an_answer_leaves_nothing_of_that(
    other: Remote, moved_twice: Any, when: str, first: str, then: str
) -> None:
    """Renamed, and moved under its old name instead; or the other way round."""
    await moved_twice(first, then, when)
    assert sorted(await other.paths()) == sorted({then, "folder/"})


async def test_temporary_name_without_an_answer_goes_though_nothing_waits_for_it_any_more(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two files that change places got it, and then the other one goes elsewhere."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", LATER)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", LATER)
    for name in ("one", "two"):
        await drive.mkdir(name)
        await drive.write(f"{name}/f", name.encode())
    await drive.sync()
    network.lose_answer("PUT", "/files/")
    await drive.rename("one/f", "two/f", EXCHANGE)
    await failed(drive, 1)
    (aside,) = [path for path in await other.paths() if ".cmsfs-aside-" in path]
    folder = aside.partition("/")[0]  # the file that got it goes to the other folder
    await drive.rename(f"{folder}/f", "f")
    await drive.agents.push.retry_all()
    await drive.sync()
    there = "one" if folder == "two" else "two"
    assert sorted(await other.paths()) == sorted(["f", "one/", "two/", f"{there}/f"])
    assert await drive.names(there) == ["f"]


@pytest.mark.parametrize("when", ["before its answer is lost", "after its answer was lost"])
@pytest.mark.parametrize("how", ["after the removal", "before the removal", "renamed back"])
async def test_rename_without_an_answer_of_a_file_that_another_one_replaces_is_taken_back_at_the_service(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch, when: str, how: str
) -> None:
    """The new file, which is the next version of the item, has its former name."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", LATER)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", LATER)

    async def replace() -> None:
        match how:
            case "after the removal":
                await drive.unlink("g")
                await drive.write("f", b"new")
            case "before the removal":
                await drive.write("f", b"new")
                await drive.unlink("g")
            case _:
                await drive.write("temporary", b"new")
                await drive.rename("temporary", "g")
                await drive.rename("g", "f")

    await drive.write("f", b"old")
    await drive.sync()
    item = await other.find("f")
    arrived, go = network.gate("PUT", "/files/", before=True)
    network.lose_answer("PUT", "/files/")
    await drive.rename("f", "g")
    with trio.fail_after(20):
        await arrived.wait()
    if when.startswith("before"):
        await replace()
    go.set()
    if when.startswith("before"):

        async def has_ended() -> bool:
            return not drive.db.rows("SELECT * FROM op WHERE state = 'running'")

        assert await drive.agents.push.until(has_ended, seconds=20)
    else:
        await failed(drive, 1)
        await replace()
    await drive.agents.push.retry_all()
    await drive.sync()
    await drive.poll()
    await drive.sync()
    assert await drive.names() == ["f"]
    assert await other.paths() == ["f"]
    assert await drive.read("f") == b"new"
    assert (await other.find("f")).id == item.id
    assert drive.ops() == []


@pytest.mark.parametrize("there", ["d/g", "g"])
@pytest.mark.parametrize("is_folder_removed", [True, False])
async def test_file_that_was_renamed_without_an_answer_is_removed(
    drive: Drive,
    other: Remote,
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    there: str,
    is_folder_removed: bool,
) -> None:
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", LATER)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", LATER)
    await drive.mkdir("d")
    await drive.write("d/f", b"x")
    await drive.write("d/other", b"y")
    await drive.sync()
    network.lose_answer("PUT", "/files/")
    await drive.rename("d/f", there)
    await failed(drive, 1)
    await drive.unlink(there)
    if is_folder_removed:
        await drive.unlink("d/other")
        await drive.rmdir("d")
    await drive.agents.push.retry_all()
    await drive.sync()
    await drive.poll()
    await drive.sync()
    assert await other.paths() == ([] if is_folder_removed else ["d/", "d/other"])
    assert drive.ops() == []


async def test_removed_file_is_deleted_in_the_version_that_arrived(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Also if an earlier version was sent to the same place before it, and did not arrive."""
    network.instead = lambda request: httpx.Response(503) if request.method == "POST" else None
    await drive.write("f", b"one")
    await failed(drive, 1)
    network.instead = None
    network.lose_answer("POST", "/content")
    await drive.write("f", b"two")

    async def has_arrived() -> bool:
        return await other.paths() == ["f"]

    assert await drive.agents.push.until(has_arrived, seconds=5)
    assert sent(drive) == 2
    await drive.unlink("f")
    for _ in range(2):
        await drive.sync()
        await drive.poll()
    assert await other.paths() == await drive.names() == []
    assert sent(drive) == 0


async def test_a_file_without_an_answer_whose_folder_replaces_the_one_it_was_sent_to(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The folder waits for the one that is deleted, that for the file that may be in it."""
    await drive.mkdir("p")
    await drive.mkdir("q")
    await drive.sync()
    q = (await other.find("q")).id
    arrived, go = network.gate("POST", "/files/content", before=True)
    network.lose_answer("POST", "/files/content")
    await drive.write("p/b.txt", b"mine")
    with trio.fail_after(5):
        await arrived.wait()
    network.is_down = True
    go.set()
    await failed(drive, 1)
    await drive.rename("p/b.txt", "q/a.txt")
    await drive.rename("q", "p")
    network.is_down = False
    drive.agents.health.asked_for()
    await drive.sync()
    assert await other.paths() == ["p/", "p/a.txt"]
    assert (await other.find("p")).id == q
    assert await other.read("a.txt") == b"mine"
    assert network.count("PUT", f"/folders/{q}") < 5
