"""Two drives mounted on one account, over networks that fail: nothing that was acknowledged vanishes, and
nothing is overwritten that its writer has not seen."""

import functools
import json
import random
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import h11
import pytest
import trio

from cmsfs import mounts
from cmsfs.service.access import calls
from cmsfs.service.provisioning import demo
from cmsfs.service.server import serve
from cmsfs.service.storage import store
from cmsfs.sqlite import Connection
from tests.support import faults, ledger
from tests.support.two_drives import ACCOUNTS, Two


class Careless(faults.Relay):
    """A planted bug: the service never hears which version a change started from."""

    async def _exchange(self, client: Any, server: Any, request: h11.Request) -> None:
        headers = [header for header in request.headers if header[0] != b"if-match"]
        asked = h11.Request(method=request.method, target=request.target, headers=headers)
        await super()._exchange(client, server, asked)


def _fill(conn: Connection) -> int:
    enterprise = demo.add_enterprise(conn, "Tests", now=1)
    user = demo.add_user(conn, enterprise, "Ada Tester", "ada@example.com", role="admin", now=1)
    conn.execute(
        "INSERT INTO app (client_id, secret_hash, name, enterprise, service_user) VALUES (?, ?, ?, ?, ?)",
        ("tests", calls.hashed("secret"), "tests", enterprise, user["id"]),
    )
    return int(user["id"])


class StartingTwo(Protocol):
    """How a test starts both drives."""

    async def __call__(
        self,
        plan: faults.Plan,
        relay_class: type[faults.Relay] = faults.Relay,
        *,
        poll_seconds: float = 1.0,
    ) -> Two: ...


@pytest.fixture
async def starting(
    tmp_path: Path, private_folders: Path, watchdog: threading.Event, served_apart: None
) -> AsyncIterator[StartingTwo]:
    """`await starting(plan, relay)`: both drives, each behind a relay of its own with this plan."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(store.open_store(tmp_path / "service"))
        user = await service.write(_fill)
        nursery = await stack.enter_async_context(trio.open_nursery())
        url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
        port = int(url.rpartition(":")[2])
        two = Two(tmp_path, private_folders, service)

        async def start(
            plan: faults.Plan, relay_class: type[faults.Relay] = faults.Relay, *, poll_seconds: float = 1.0
        ) -> Two:
            secret = private_folders / "secret"
            secret.write_text("secret")
            file = private_folders / "config/cmsfs/config.toml"
            file.parent.mkdir(exist_ok=True)
            lines = ['settle_seconds = 0.2\nnetwork_seconds = 2\nprofile = "specification"\n']
            for account in ACCOUNTS:
                relay = relay_class("127.0.0.1", port, plan)
                (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                relay.port = listener.socket.getsockname()[1]
                nursery.start_soon(trio.serve_listeners, relay.serve, [listener])
                base = f"http://127.0.0.1:{relay.port}"
                values = {
                    "base_url": f"{base}/2.0",
                    "upload_url": f"{base}/api/2.0",
                    "auth_url": base,
                    "client_id": "tests",
                    "client_secret_file": str(secret),
                    "subject_id": str(user),
                    "poll_seconds": poll_seconds,
                    "idle_poll_seconds": poll_seconds,
                }
                lines.append(f"[accounts.{account}]\n")
                lines += [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
            file.write_text("".join(lines), encoding="utf-8")
            await trio.to_thread.run_sync(two.mount)
            return two

        yield start
        for account, top in two.tops.items():
            if mounts.find(top):
                unmount = ["--account", account, "umount", top, "--force", "--drain", "0"]
                await trio.to_thread.run_sync(two.cmsfs, *unmount)
        nursery.cancel_scope.cancel()


async def both_write(two: Two) -> None:
    """The simplest story: both overwrite a version that both have seen, neither having heard of the other."""

    def story() -> None:
        one, other = (top / "a.txt" for top in two.tops.values())
        two.create(one, b"first\n")
        two.settle()
        two.write(one, b"one\n")
        two.write(other, b"other\n")
        two.settle()

    await trio.to_thread.run_sync(story)


async def test_two_writers_of_one_version_are_both_kept(starting: StartingTwo) -> None:
    two = await starting(faults.Plan(), poll_seconds=3600)
    await both_write(two)
    assert await two.judge() == ([], [])
    await trio.to_thread.run_sync(two.check_same)
    assert len(two.chains()) == 2, "the second one is a conflict copy"


async def test_the_ledger_finds_what_a_careless_client_does(starting: StartingTwo) -> None:
    two = await starting(faults.Plan(), Careless, poll_seconds=3600)
    await both_write(two)
    vanished, unseen = await two.judge()
    assert vanished == []
    # Which of the two came last is chance.
    assert [set(pair) for pair in unseen] == [{ledger.sha1(b"one\n"), ledger.sha1(b"other\n")}]
    report = two.explained(list(unseen[0]))
    assert "two: a.txt has <other; 6>, which is acknowledged" in report
    for account in ACCOUNTS:
        assert (two.trace.folder / "home/state/cmsfs" / account / "cmsfsd.log").exists()
    # What nobody has any more, and nobody gave up.
    two.ledger.wrote(b"acknowledged, and lost\n", over=None)
    assert (await two.judge())[0] == [ledger.sha1(b"acknowledged, and lost\n")]


# The simulation has such stories by the thousand, with a kernel of its own; these have the machine's.
@pytest.mark.long
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("seed", [random.randrange(10**6) for _ in range(4)])
async def test_two_drives_survive_bad_networks(starting: StartingTwo, seed: int) -> None:
    steps = 2500
    plan = faults.Plan(faults.RandomFaults(seed, every=8, stalls=True))
    two = await starting(plan)
    story = functools.partial(two.story, kill_every=100)
    await trio.to_thread.run_sync(story, seed, steps)
    plan.clear()
    await trio.to_thread.run_sync(two.settle)
    assert plan.faults > steps // 50, "the test proves little"
    # Most of what is left over is refused by the networks, by chance.
    assert len(two.ledger.acknowledged) > steps // 8
    vanished, unseen = await two.judge()
    assert vanished == [], f"seed {seed}: {two.explained(vanished)}"
    assert two.foreign == [], f"seed {seed}: {two.foreign} {two.explained([])}"
    assert unseen == [], f"seed {seed}: {two.explained([sha1 for pair in unseen for sha1 in pair])}"
    await trio.to_thread.run_sync(two.check_same)
    two.trace.forget()
