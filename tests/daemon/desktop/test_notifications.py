"""What a person is told on the desktop, how often, and that no desktop is no trouble."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from jeepney import HeaderFields, MatchRule, MessageType, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.trio import open_dbus_connection
from trio.testing import MockClock

from cmsfs import config, errors
from cmsfs.ipc import notification_bus
from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import ROOT
from cmsfs.service.storage.store import Store
from daemon.desktop import notifications
from daemon.desktop.notifications import Notifications
from tests.support import message_buses
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog


class Desktop:
    """Notes what it is to show."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, int]] = []

    async def __call__(self, summary: str, body: str, *, replaces: int = 0, urgency: str = "normal") -> int:
        self.shown.append((summary, body, replaces))
        return 40 + len(self.shown)

    @property
    def summaries(self) -> list[str]:
        return [summary for summary, _, _ in self.shown]


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, keep_free_bytes=0)


@pytest.fixture
def shown() -> Desktop:
    return Desktop()


@pytest.fixture
def agent(drive: Drive, settings: config.Settings, shown: Desktop) -> Notifications:
    agents = drive.agents
    told = agents.remote_updates.happenings.conflicts_told
    return Notifications(
        settings, drive.db, agents.health, lambda: agents.pins.problem, shown, conflicts=told
    )


async def test_a_drive_that_is_well_says_nothing(agent: Notifications, shown: Desktop) -> None:
    await agent.look()
    assert shown.shown == []


async def test_dead_login_notifies_once(
    starting: Starting, settings: config.Settings, shown: Desktop, autojump_clock: MockClock
) -> None:
    async with starting(agents=()) as drive:
        health = drive.agents.health
        agent = Notifications(settings, drive.db, health, lambda: "", shown)
        refusal = errors.OAuthError("invalid_client", "no such client")
        health.failed(refusal)
        for _ in range(10):
            await agent.look()
            await trio.sleep(1)
        assert shown.summaries == ["The login does not work any more"]
        assert "account default" in shown.shown[0][1]
        # It comes and goes: that is one trouble still.
        health.answered()
        await agent.look()
        health.failed(refusal)
        await agent.look()
        assert len(shown.shown) == 1
        health.answered()
        await trio.sleep(notifications.CALM_SECONDS + 20)
        await agent.look()
        health.failed(refusal)
        await agent.look()
        assert [replaced for _, _, replaced in shown.shown] == [0, 41]


async def test_conflict_notification_names_the_copy(
    agent: Notifications, drive: Drive, other: Remote, shown: Desktop
) -> None:
    await other.file("f.txt", b"base")
    await drive.read("f.txt")
    drive.agents.push.wake()
    await other.write((await other.find("f.txt")).id, b"theirs")
    await drive.write("f.txt", b"ours")
    await drive.sync()
    await agent.look()
    assert shown.summaries == ["Conflicting edits"]
    assert "f (conflicted copy of" in shown.shown[0][1]


async def test_foreign_conflicts_do_not_notify(
    agent: Notifications, drive: Drive, other: Remote, shown: Desktop
) -> None:
    name = "f (conflicted copy of some-other-host, 2026-11-21).txt"
    await other.file(name, b"theirs")
    assert await drive.read(name) == b"theirs"
    node = tree.find_child(drive.db, ROOT, name)
    assert node is not None
    drive.agents.remote_updates.publish([Change(ChangeKind.ENTRY, node.ino, ROOT, name)])
    assert [one.what for one in drive.agents.remote_updates.happenings.recent][-1:] == ["conflict"]
    await agent.look()
    assert shown.shown == []


async def test_refusal_notification_suggests_fix(
    agent: Notifications,
    drive: Drive,
    other: Remote,
    shown: Desktop,
    service: Store,
    user: int,
    expect_log: ExpectLog,
) -> None:
    expect_log("the service rejected a change")
    await service.write(
        lambda conn: conn.execute("UPDATE account SET space_amount = 1 WHERE id = ?", (user,))
    )
    await drive.write("large", b"x" * 1000)
    with trio.fail_after(20):
        await drive.agents.sync()
    await agent.look()
    await agent.look()
    assert shown.summaries == ["A change cannot be uploaded"]
    assert "/large: " in shown.shown[0][1]
    assert "cmsfs conflicts" in shown.shown[0][1]


async def test_full_disk_and_oversized_pins_notify(drive: Drive, shown: Desktop) -> None:
    settings = config.Settings(keep_free_bytes=2**60)
    agents = drive.agents
    await Notifications(settings, drive.db, agents.health, lambda: "", shown).look()
    await Notifications(settings, drive.db, agents.health, lambda: "Too much.", shown).look()
    assert shown.summaries == ["The disk is nearly full", "Not enough space for pinned items"]


async def test_they_can_be_switched_off(drive: Drive, shown: Desktop) -> None:
    settings = config.Settings(keep_free_bytes=2**60, notifications=False)
    agents = drive.agents
    with trio.fail_after(5):
        await Notifications(settings, drive.db, agents.health, lambda: "", shown).run()
    assert shown.shown == []


async def test_without_a_session_nothing_is_shown() -> None:
    assert config.session_bus() is None
    assert await notification_bus.show("a", "b") is None


async def test_a_bus_that_is_gone_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path / 'gone'}")
    assert await notification_bus.show("a", "b") is None
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "nonsense")
    assert await notification_bus.show("a", "b") is None


# Names and a service's words may hold all of this.
BODY = '<a href="https://x.example"> & \x1b[2J'


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a message bus of the test's own."""
    with message_buses.running() as address:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        yield address


@pytest.mark.parametrize(
    ("can", "shown"),
    [
        (
            ["body", "body-markup", "body-hyperlinks"],
            "&lt;a href=&quot;https: x.example&quot;&gt; &amp; \\e[2J",
        ),
        (["body"], '<a href="https: x.example"> & \\e[2J'),
        ([], '<a href="https: x.example"> & \\e[2J'),
    ],
)
async def test_notification_over_a_real_bus(bus: str, can: list[str], shown: str) -> None:
    # Nobody shows any yet.
    assert await notification_bus.show("a", "b") is None
    calls: list[tuple[Any, ...]] = []
    async with await open_dbus_connection(bus) as connection, connection.router() as router:
        rule = MatchRule(type="method_call", interface="org.freedesktop.Notifications")
        async with router.filter(rule, bufsize=5) as messages, trio.open_nursery() as nursery:

            async def serve() -> None:
                async for message in messages:
                    if message.header.fields[HeaderFields.member] == "GetCapabilities":
                        await router.send(new_method_return(message, "as", (can,)))
                        continue
                    calls.append(message.body)
                    await router.send(new_method_return(message, "u", (77,)))

            nursery.start_soon(serve)
            reply = await router.send_and_get_reply(message_bus.RequestName("org.freedesktop.Notifications"))
            assert reply.header.message_type is MessageType.method_return
            assert await notification_bus.show("Hello", BODY, replaces=5, urgency="critical") == 77
            nursery.cancel_scope.cancel()
    ((app, replaces, icon, summary, body, actions, hints, timeout),) = calls
    assert (app, replaces, summary, body, actions, timeout) == ("cmsfs", 5, "Hello", shown, [], -1)
    assert hints["urgency"] == ("y", 2)
    assert icon
