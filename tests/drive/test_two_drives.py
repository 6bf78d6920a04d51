"""Two drives mounted on one account, over networks that fail: nothing that was acknowledged vanishes, and
nothing is overwritten that its writer has not seen."""

import contextlib
import functools
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import h11
import pytest
import trio

from cmsfs import config, errors, mounts
from cmsfs.cli import daemonctl
from cmsfs.models import control
from cmsfs.service import access, demo, serve, store
from cmsfs.service.store import Store
from cmsfs.sqlite import Connection


def _load(name: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults = _load("faults", Path(__file__).parents[1])
ledger = _load("ledger", Path(__file__).parent)

NAMES = ["a.txt", "b.txt", "c.txt", "d.txt"]
ACCOUNTS = ["one", "two"]

# Files that are left open at a time.
HELD = 6

# How long a step waits for a daemon whose network has stalled; what it asked for goes on without it.
STEP_SECONDS = 0.5

# Each of these attempts is given up by the command line's side after a quarter of a minute.
PATIENCE = 8


class Careless(faults.Relay):  # type: ignore[misc]
    """A planted bug: the service never hears which version a change started from."""

    async def _exchange(self, client: Any, server: Any, request: h11.Request) -> None:
        headers = [header for header in request.headers if header[0] != b"if-match"]
        asked = h11.Request(method=request.method, target=request.target, headers=headers)
        await super()._exchange(client, server, asked)


class Two:
    """The drives, and random programs at both.  Its methods block: call them from a thread."""

    def __init__(self, folder: Path, service: Store) -> None:
        self.tops = {account: folder / account for account in ACCOUNTS}
        self.service = service
        self.ledger = ledger.Ledger()
        self.number = 0
        self.held: list[int] = []

    def cmsfs(self, *arguments: object) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            cwd="/",
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"

    def mount(self) -> None:
        for account, top in self.tops.items():
            top.mkdir()
            self.cmsfs("--account", account, "mount", top)

    def ask(self, account: str, request: Any) -> None:
        daemon = daemonctl.find_account(account)
        assert daemon is not None
        for _ in daemonctl.exchange(daemon.socket, request):
            pass

    def hint(self, account: str, request: Any) -> None:
        """Ask, and hang up after a moment."""
        end = time.monotonic() + STEP_SECONDS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(daemonctl, "SILENCE_SECONDS", STEP_SECONDS)
            for _ in daemonctl.exchange(config.Paths(account).socket, request):
                if time.monotonic() > end:
                    return

    def insist(self, account: str, request: Any) -> None:
        """Ask until there is an answer: a request that met a stall takes a minute."""
        for attempt in range(PATIENCE):
            try:
                self.ask(account, request)
                return
            except errors.UserError:
                if attempt == PATIENCE - 1:
                    raise

    def settle(self) -> None:
        """Both have sent everything and heard everything."""
        for _ in range(4):
            for account in ACCOUNTS:
                self.insist(account, control.Sync())
            for account in ACCOUNTS:
                self.insist(account, control.Poll())

    # ---- programs --------------------------------------------------------------------------------

    def text(self, account: str) -> bytes:
        self.number += 1
        return f"{account} {self.number}\n".encode() * (1 + self.number % 50)

    def write(self, path: Path, data: bytes) -> None:
        """Into the file: what was read through the same handle is what is overwritten."""
        fd = os.open(path, os.O_RDWR)
        try:
            before = self.overwrite(fd, data)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        self.ledger.wrote(data, over=ledger.sha1(before))
        self.ledger.saw_and_replaced(before)

    def overwrite(self, fd: int, data: bytes) -> bytes:
        before = os.pread(fd, 1 << 20, 0)
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)
        return before

    def hold(self, path: Path) -> None:
        """Open the file and leave it open, whatever becomes of it."""
        self.held.append(os.open(path, os.O_RDWR))
        if len(self.held) > HELD:
            os.close(self.held.pop(0))

    def write_held(self, fd: int, data: bytes) -> None:
        """Into a file that was opened long ago, whichever it is by now."""
        before = self.overwrite(fd, data)
        os.fsync(fd)
        self.ledger.wrote(data, over=ledger.sha1(before))
        self.ledger.saw_and_replaced(before)

    def giving_up(self, path: Path) -> None:
        """The file at this path is about to be removed or replaced here: what is written to it then goes."""
        found = path.stat() if path.exists() else None
        for fd in list(self.held):
            if found is not None and os.path.samestat(os.fstat(fd), found):
                self.held.remove(fd)
                os.close(fd)

    def let_go(self) -> None:
        while self.held:
            with contextlib.suppress(OSError):  # its daemon may have been killed
                os.close(self.held.pop())

    def create(self, path: Path, data: bytes) -> None:
        with path.open("xb") as file:
            file.write(data)
        # It may follow a file that was deleted here a moment ago.
        self.ledger.wrote(data, over=ledger.ANY)

    def save(self, path: Path, data: bytes) -> None:
        before = path.read_bytes() if path.exists() else b""
        temporary = path.with_name(f".goutputstream-{self.number}")
        temporary.write_bytes(data)
        self.ledger.wrote(data, over=ledger.ANY)
        self.giving_up(path)
        temporary.rename(path)
        self.ledger.saw_and_replaced(before)

    def rename(self, path: Path, target: Path) -> None:
        before = target.read_bytes() if target.exists() else b""
        moved = path.read_bytes()
        if ledger.sha1(moved) in self.ledger.acknowledged:
            self.ledger.put_anywhere(moved)
        if path != target:
            self.giving_up(target)
        path.rename(target)
        self.ledger.saw_and_replaced(before)

    def unlink(self, path: Path) -> None:
        before = path.read_bytes()
        self.giving_up(path)
        path.unlink()
        self.ledger.saw_and_replaced(before)

    def step(self, chance: random.Random) -> None:
        account = chance.choice(ACCOUNTS)
        path = self.tops[account] / chance.choice(NAMES)
        act = chance.choices(
            ["write", "save", "rename", "unlink", "hold", "held", "sync", "poll"],
            weights=[40, 20, 8, 7, 10, 20, 12, 12],
        )[0]
        try:
            match act:
                case "write" if path.exists():
                    self.write(path, self.text(account))
                case "write":
                    self.create(path, self.text(account))
                case "save":
                    self.save(path, self.text(account))
                case "rename":
                    self.rename(path, self.tops[account] / chance.choice(NAMES))
                case "unlink":
                    self.unlink(path)
                case "hold":
                    self.hold(path)
                case "held" if self.held:
                    self.write_held(chance.choice(self.held), self.text(account))
                case "sync":
                    self.hint(account, control.Sync())
                case "poll":
                    self.hint(account, control.Poll())
        except (OSError, errors.UserError):
            pass  # refused, or the network failed the call: nothing was acknowledged

    def kill(self, account: str) -> None:
        """The daemon is gone in the middle of whatever it did, and another one takes its place."""
        daemon = daemonctl.find_account(account)
        assert daemon is not None
        os.kill(daemon.pid, signal.SIGKILL)
        # Of the other drive too: which are whose nobody noted.
        self.let_go()
        self.cmsfs("--account", account, "mount", self.tops[account])

    def story(self, seed: int, steps: int, *, kill_every: int = 0) -> None:
        chance = random.Random(seed)
        for number in range(1, steps + 1):
            self.step(chance)
            if kill_every and not number % kill_every:
                self.kill(chance.choice(ACCOUNTS))
        self.let_go()

    # ---- the judgement ---------------------------------------------------------------------------

    def chains(self) -> list[list[str]]:
        rows = self.service.read("SELECT file, sha1 FROM version ORDER BY file, id")
        found: dict[int, list[str]] = {}
        for row in rows:
            found.setdefault(row["file"], []).append(row["sha1"])
        return list(found.values())

    def judge(self) -> tuple[list[str], list[tuple[str, str]]]:
        """What vanished, and what was overwritten unseen."""
        chains = self.chains()
        return self.ledger.vanished(sha1 for chain in chains for sha1 in chain), self.ledger.unseen(chains)

    def check_same(self) -> None:
        """Both drives show what the service has."""
        rows = self.service.read("SELECT name, sha1 FROM item WHERE kind = 1 AND status = 0")
        there = {row["name"]: row["sha1"] for row in rows}
        for account, top in self.tops.items():
            here = {path.name: ledger.sha1(path.read_bytes()) for path in top.iterdir()}
            here = {name: sha1 for name, sha1 in here.items() if not name.startswith(".goutputstream-")}
            assert here == there, account


def _fill(conn: Connection) -> int:
    enterprise = demo.add_enterprise(conn, "Tests", now=1)
    user = demo.add_user(conn, enterprise, "Ada Tester", "ada@example.com", role="admin", now=1)
    conn.execute(
        "INSERT INTO app (client_id, secret_hash, name, enterprise, service_user) VALUES (?, ?, ?, ?, ?)",
        ("tests", access.hashed("secret"), "tests", enterprise, user["id"]),
    )
    return int(user["id"])


@pytest.fixture
async def starting(tmp_path: Path, private_folders: Path, watchdog: Any) -> AsyncIterator[Any]:
    """`await starting(plan, relay)`: both drives, each behind a relay of its own with this plan."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(store.open_store(tmp_path / "service"))
        user = await service.write(_fill)
        nursery = await stack.enter_async_context(trio.open_nursery())
        url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
        port = int(url.rpartition(":")[2])
        two = Two(tmp_path, service)

        async def start(plan: Any, relay_class: Any = faults.Relay, *, poll_seconds: float = 1.0) -> Two:
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


async def test_two_writers_of_one_version_are_both_kept(starting: Any) -> None:
    two = await starting(faults.Plan(), poll_seconds=3600)
    await both_write(two)
    assert two.judge() == ([], [])
    await trio.to_thread.run_sync(two.check_same)
    assert len(two.chains()) == 2, "the second one is a conflict copy"


async def test_the_ledger_finds_what_a_careless_client_does(starting: Any) -> None:
    two = await starting(faults.Plan(), Careless, poll_seconds=3600)
    await both_write(two)
    vanished, unseen = two.judge()
    assert vanished == []
    assert unseen == [(ledger.sha1(b"one\n"), ledger.sha1(b"other\n"))]
    # What nobody has any more, and nobody gave up.
    two.ledger.wrote(b"acknowledged, and lost\n", over=None)
    assert two.judge()[0] == [ledger.sha1(b"acknowledged, and lost\n")]


async def run(starting: Any, *, seed: int, steps: int, every: int, stalls: bool, kill_every: int = 0) -> None:
    plan = faults.Plan(faults.Mischief(seed, every=every, stalls=stalls))
    two = await starting(plan)
    story = functools.partial(two.story, kill_every=kill_every)
    await trio.to_thread.run_sync(story, seed, steps)
    plan.clear()
    await trio.to_thread.run_sync(two.settle)
    assert plan.faults > steps // 50, "the test proves little"
    assert len(two.ledger.acknowledged) > steps // 3
    vanished, unseen = two.judge()
    assert vanished == [], seed
    assert unseen == [], seed
    await trio.to_thread.run_sync(two.check_same)


async def test_two_drives_over_bad_networks_lose_nothing(starting: Any) -> None:
    await run(starting, seed=random.randrange(10**6), steps=80, every=6, stalls=False)


@pytest.mark.long
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("seed", [random.randrange(10**6) for _ in range(4)])
async def test_two_drives_over_bad_networks_lose_nothing_in_ten_thousand_calls(
    starting: Any, seed: int
) -> None:
    await run(
        starting,
        seed=seed,
        steps=2500,
        every=8,
        stalls=True,
        kill_every=100,
    )
