"""What a service offers is found out without a change, told from what it says of items, and kept."""

import errno
import json

import httpx
import pytest
import trio

from cmsfs import errors
from cmsfs.client import offers
from cmsfs.config.abilities import Ability
from cmsfs.replica import kv_store
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, Starting, fails
from tests.support.log_watch import ExpectLog
from tests.support.network import Network
from tests.support.specified_service import SpecifiedService


async def lacking(drive: Drive) -> frozenset[Ability]:
    url = errno_probe.URL
    found = await offers.find_out(drive.agents.client.wire, f"{url}/2.0", f"{url}/api/2.0")
    assert not found.unclear
    return found.lacking


@pytest.mark.parametrize("refusal", ["unknown", "bare", "method"], indirect=True)
async def test_a_service_with_twelve_operations_lacks_all_others(drive: Drive) -> None:
    assert await lacking(drive) == set(Ability) == drive.agents.client.offers.lacking


async def test_a_complete_service_lacks_nothing(
    specified: SpecifiedService, starting: Starting, other: Remote
) -> None:
    specified.is_whole = True
    await other.file("a", b"a")
    before = await other.everything()
    async with starting() as drive:
        assert await lacking(drive) == drive.agents.client.offers.lacking == frozenset()
    assert await other.everything() == before


async def test_only_what_is_missing_is_lacking(
    drive: Drive, specified: SpecifiedService, network: Network
) -> None:
    specified.is_whole = True

    def no_folders(request: httpx.Request) -> httpx.Response | None:
        is_theirs = (request.method, request.url.path) == ("POST", "/2.0/folders")
        return specified.refusal(request) if is_theirs else None

    network.instead = no_folders
    assert await lacking(drive) == {Ability.FOLDERS}


async def test_one_answer_to_everything_that_is_missing_says_nothing(
    starting: Starting, specified: SpecifiedService, other: Remote, expect_log: ExpectLog
) -> None:
    # Whether it is the item that is missing, or the operation, cannot be told: nothing is risked.
    expect_log("this service cannot delete")
    specified.is_whole = specified.is_mute = True
    await other.file("a", b"a")
    async with starting() as drive:
        assert await drive.names() == ["a"]
        with fails(errno.EPERM):
            await drive.unlink("a")
        await drive.agents.reconciler.once(full=True)
        assert (drive.ops(), await drive.names()) == ([], ["a"])
        # Other refusals say that the operation is there.
        assert Ability.FOLDERS not in drive.agents.client.offers.lacking


@pytest.mark.parametrize("status", [404, 503])
async def test_what_a_gateway_in_trouble_says_is_asked_again(
    starting: Starting,
    specified: SpecifiedService,
    network: Network,
    other: Remote,
    status: int,
    expect_log: ExpectLog,
) -> None:
    expect_log("this service cannot delete")
    specified.is_whole = True
    await other.file("a", b"a")

    def trouble(request: httpx.Request) -> httpx.Response | None:
        is_hit = request.method == "DELETE" and "/files/" in request.url.path
        return httpx.Response(status, text="<html>") if is_hit else None

    network.instead = trouble
    async with starting() as drive:
        assert await drive.names() == ["a"]
        with fails(errno.EPERM):
            await drive.unlink("a")
        network.instead = None
        await drive.agents.account.refresh()
        await drive.unlink("a")
        await drive.sync()
        assert await other.paths() == []


@pytest.mark.parametrize("status", [404, 503])
async def test_a_file_is_read_while_it_is_unclear_whether_the_service_gives_it_out(
    starting: Starting, specified: SpecifiedService, network: Network, other: Remote, status: int
) -> None:
    specified.is_whole = True
    await other.file("a", b"some bytes")

    def trouble(request: httpx.Request) -> httpx.Response | None:
        is_hit = request.method == "GET" and request.url.path.endswith("/files/0/content")
        return httpx.Response(status, text="<html>") if is_hit else None

    network.instead = trouble
    async with starting() as drive:
        assert drive.agents.client.offers.unclear == {Ability.CONTENTS}
        assert await drive.read("a") == b"some bytes"


async def test_what_a_gateway_says_of_every_url_denies_nothing(
    drive: Drive, specified: SpecifiedService, network: Network
) -> None:
    """Not even if it denies in the same way what no service has: others hear the service's own words."""
    specified.is_whole = True

    def trouble(request: httpx.Request) -> httpx.Response | None:
        is_hit = request.method == "GET" and request.url.path.endswith(
            ("/files/0/content", f"{offers.NOWHERE}/0")
        )
        return httpx.Response(404, text="<html>") if is_hit else None

    network.instead = trouble
    url = errno_probe.URL
    found = await offers.find_out(drive.agents.client.wire, f"{url}/2.0", f"{url}/api/2.0")
    assert found == offers.Findings(frozenset(), frozenset({Ability.CONTENTS}))


async def test_what_is_unclear_is_asked_again_soon(
    starting: Starting,
    specified: SpecifiedService,
    network: Network,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("daemon.account.account.SOON_SECONDS", 0.01)
    specified.is_whole = True
    asked = 0

    def trouble(request: httpx.Request) -> httpx.Response | None:
        nonlocal asked
        is_hit = request.method == "DELETE" and "/files/" in request.url.path
        asked += is_hit
        return httpx.Response(503) if is_hit and asked < 3 else None

    network.instead = trouble
    async with starting() as drive:
        nursery.start_soon(drive.agents.account.run)
        offers_now = drive.agents.client.offers
        with trio.fail_after(20):
            while offers_now.unclear or asked < 3:
                await trio.lowlevel.checkpoint()
        assert not offers_now.lacking


async def test_queued_change_waits_until_the_service_tells(
    starting: Starting, specified: SpecifiedService, network: Network, other: Remote
) -> None:
    specified.is_whole = True
    await other.file("a", b"a")
    async with starting(agents=("health", "fs")) as drive:
        assert await drive.names() == ["a"]
        await drive.unlink("a")
        # As if nothing had been known until then.
        await drive.db.write(
            lambda conn: conn.execute("DELETE FROM cursor WHERE key = ?", (kv_store.LACKING,))
        )

    def trouble(request: httpx.Request) -> httpx.Response | None:
        is_hit = request.method == "DELETE" and "/files/" in request.url.path
        return httpx.Response(503) if is_hit else None

    network.instead = trouble
    async with starting() as drive:
        with trio.fail_after(20):
            while not drive.db.rows("SELECT 1 FROM op WHERE attempts > 0"):
                await trio.lowlevel.checkpoint()
        network.instead = None
        await drive.agents.account.refresh()
        await drive.sync()
        assert (await other.paths(), await drive.names()) == ([], [])


async def test_trouble_at_a_later_start_changes_nothing(
    starting: Starting, specified: SpecifiedService, network: Network
) -> None:
    specified.is_whole = True
    async with starting():
        pass
    network.instead = lambda request: httpx.Response(503) if request.method == "DELETE" else None
    async with starting() as drive:
        assert not drive.agents.client.offers.lacking


async def test_a_service_that_tells_nothing_is_not_believed(drive: Drive, network: Network) -> None:
    network.instead = lambda request: httpx.Response(502)
    with pytest.raises(errors.RemoteError):
        await lacking(drive)


@pytest.mark.parametrize("status", [403, 404])
async def test_a_service_that_tells_nobody_who_they_are(
    starting: Starting, network: Network, other: Remote, status: int
) -> None:
    words = {"type": "error", "status": status, "code": "forbidden", "message": "Not for you."}

    def hides(request: httpx.Request) -> httpx.Response | None:
        return httpx.Response(status, json=words) if request.url.path.endswith("/users/me") else None

    network.instead = hides
    await other.file("a", b"a")
    async with starting() as drive:
        assert await drive.names() == ["a"]
        await drive.write("b", b"b")
        await drive.sync()
        assert await other.paths() == ["a", "b"]


async def test_it_holds_for_a_start_without_the_service(
    starting: Starting, network: Network, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log("this service cannot delete")
    await other.file("a", b"a")
    async with starting() as drive:
        assert await drive.names() == ["a"]
    network.is_down = True
    async with starting() as drive:
        with fails(errno.EPERM):
            await drive.unlink("a")
        assert drive.ops() == []


async def test_a_service_that_got_more_is_used(
    starting: Starting, specified: SpecifiedService, other: Remote
) -> None:
    await other.file("a", b"a")
    async with starting() as drive:
        assert await drive.names() == ["a"]
    specified.is_whole = True
    async with starting() as drive:
        await drive.unlink("a")
        await drive.sync()
        assert await other.paths() == []


class TestQueuedBefore:
    """What was queued while a service offered more is undone, or held, and never taken as done."""

    @pytest.fixture
    async def files(self, specified: SpecifiedService, other: Remote) -> list[str]:
        specified.is_whole = True
        for name in ("a", "b", "c"):
            await other.file(name, name.encode())
        return ["a", "b", "c"]

    @pytest.mark.parametrize("refusal", ["unknown", "bare"], indirect=True)
    async def test_deletions_are_undone(
        self,
        starting: Starting,
        specified: SpecifiedService,
        other: Remote,
        files: list[str],
        expect_log: ExpectLog,
    ) -> None:
        async with starting(agents=("health", "fs")) as drive:
            await drive.names()
            for name in files:
                await drive.unlink(name)
        specified.is_whole = False
        expect_log("the service rejected a deletion")
        async with starting() as drive:
            await drive.sync()
            assert (drive.ops(), await drive.names()) == ([], files)
            assert await other.paths() == files
        assert [
            path for method, path in specified.refused if method == "DELETE" and not path.endswith("/0")
        ] == []

    async def test_renames_are_undone(
        self,
        starting: Starting,
        specified: SpecifiedService,
        other: Remote,
        files: list[str],
        expect_log: ExpectLog,
    ) -> None:
        async with starting(agents=("health", "fs")) as drive:
            await drive.names()
            await drive.rename("a", "z")
        specified.is_whole = False
        expect_log("z is called a again")
        async with starting() as drive:
            await drive.sync()
            assert (drive.ops(), await drive.names()) == ([], files)

    async def test_a_rename_is_undone_though_the_file_is_changed_meanwhile(
        self,
        starting: Starting,
        specified: SpecifiedService,
        other: Remote,
        network: Network,
        files: list[str],
        expect_log: ExpectLog,
    ) -> None:
        """The answer that says what the file is called is older than the change."""
        async with starting(agents=("health", "fs")) as drive:
            await drive.names()
            await drive.rename("a", "z")
        specified.is_whole = False
        expect_log("z is called a again")
        async with starting(agents=("health", "fs", "push")) as drive:
            arrived, go_on = network.gate("GET", "/search")
            with trio.fail_after(20):
                await arrived.wait()
            specified.is_whole = True
            number = (await other.find("a")).id
            await other.write(number, b"news")
            await drive.agents.remote_updates.apply([await other.client.items.get("file", number)])
            specified.is_whole = False
            go_on.set()
            await drive.sync()
            assert (drive.ops(), await drive.names()) == ([], files)

    async def test_folders_and_versions_are_held(
        self,
        starting: Starting,
        specified: SpecifiedService,
        other: Remote,
        files: list[str],
        expect_log: ExpectLog,
    ) -> None:
        async with starting(agents=("health", "fs")) as drive:
            await drive.names()
            await drive.mkdir("new")
            await drive.write("a", b"news")
        specified.is_whole = False
        expect_log("This service cannot make folders")
        expect_log("This service cannot change the contents of files")
        async with starting() as drive:
            await drive.sync()
            assert [op[1:] for op in drive.ops()] == [("held", "/new"), ("held", "/a")]
            assert await drive.read("a") == b"news"
            assert await other.read("a") == b"a"


def test_what_is_kept_is_readable() -> None:
    assert json.dumps(sorted(Ability)).startswith('["changes", "contents"')
    assert all(one.cannot for one in Ability)
