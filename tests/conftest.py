"""Fixtures of all tests: private folders, no unexpected warnings, nothing left open."""

import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import pytest_timeout  # type: ignore[import-untyped]

from cmsfs import sqlite
from cmsfs.replica import database
from tests.support import cheap_passwords, database_templates, forked
from tests.support.log_watch import ExpectLog, LogWatch
from tests.support.patience import Patience

if TYPE_CHECKING:
    from tests.support import three_processes

pytest_plugins = ["tests.support.scheduling"]

XDG = {
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_CACHE_HOME": "cache",
    "XDG_RUNTIME_DIR": "run",
}


# A busy machine is slow, which must not fail an example of hypothesis.
hypothesis.settings.register_profile(
    "cmsfs", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("cmsfs")

cheap_passwords.install()
database_templates.install()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        forked.server = forked.Server(config.workerinput["forkserver"])
    forked.install()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    # One fork server for all processes of the run; it loads while they collect.
    node.workerinput["forkserver"] = forked.server.path()


def pytest_unconfigure() -> None:
    forked.server.stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable the garbage collector during collection: it would scan permanent objects repeatedly."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests too")
    parser.addoption("--postgres", action="store_true", help="run the service's tests on PostgreSQL alone")
    parser.addoption(
        "--processes",
        action="store_true",
        help="run the tests of clients and of the drive on three processes that share PostgreSQL and S3",
    )


def pytest_timeout_set_timer(item: Any, settings: Any) -> bool | None:
    """Apply a test's time limit in `Patience` seconds, which are longer on a busy machine."""
    if settings.method != "signal":
        return None
    patience = Patience(settings.timeout)

    def look(*_: object) -> None:
        if left := patience.left():
            signal.setitimer(signal.ITIMER_REAL, left)
            return
        sys.stderr.write(f"\n{item.nodeid}: {patience}\n")
        pytest_timeout.timeout_sigalrm(item, settings)

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


def pytest_sessionfinish() -> None:
    # Check objects that outlive tests (fixtures of modules and of the session) once.
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # nor is what is left walked again, by pytest and by Python at its end


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    chosen = [item for item in items if "long" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "long" in item.keywords])
    items[:] = chosen


@pytest.fixture(autouse=True)
def private_folders(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Give the test its own home, so that nothing of the user who runs the tests is read or written."""
    home = tmp_path_factory.mktemp("home")
    for variable, name in XDG.items():
        (home / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(home / name))
    monkeypatch.setenv("HOME", str(home))
    for variable in (
        "CMSFS_CONFIG",
        "CMSFS_ACCOUNT",
        "NOTIFY_SOCKET",
        "JOURNAL_STREAM",
        "DBUS_SESSION_BUS_ADDRESS",
    ):
        monkeypatch.delenv(variable, raising=False)
    yield home
    # pytest keeps the folders for inspection; a thousand disk reserves would fill the memory they are in.
    for reserve in home.glob("state/cmsfs/*/reserve"):
        reserve.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def log_watch() -> Iterator[LogWatch]:
    """Fail the test for a warning that it did not announce, and for an announced one that did not come."""
    watch = LogWatch()
    root = logging.getLogger()
    root.addHandler(watch)
    # Report unclosed resources in the test that opened them, not in a later one.  Objects older than the test
    # are left out: scanning every imported module took longer than most tests.
    gc.freeze()
    yield watch
    root.removeHandler(watch)
    gc.collect()
    assert watch.unannounced() == []
    assert watch.unheard() == []


@pytest.fixture
def expect_log(log_watch: LogWatch) -> ExpectLog:
    """`expect_log(pattern)`: announce a log line at WARNING or above that matches this."""
    return log_watch.expected.append


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[three_processes.Engines]":
    """What three processes share; the test is skipped if it is not installed."""
    from tests.support import three_processes  # few tests need what it imports

    if (why := three_processes.lacks()) is not None:
        pytest.skip(why)
    with three_processes.engines(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """`program("cmsfs")`: a line for a shell script that runs this program."""
    return forked.script


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[sqlite.Database]:
    """An empty replica."""
    async with database.open_replica(tmp_path / "replica.db") as opened:
        yield opened
