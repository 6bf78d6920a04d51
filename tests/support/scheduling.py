"""Distribution of tests over processes (pytest-xdist): by file, the slowest files first.

A process collects a file only when it runs it; until then the file is a single item.  So no process imports,
compiles and collects what another one runs.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Files and folders whose tests start programs and mount drives: started late, they would be the only ones
# still running at the end.  All others follow in their order.
LONGEST = (
    "tests/cli/guides/",
    "tests/drive/",
    "tests/browser/",
    "tests/simulation/test_simulation.py",
    "tests/service/api/",
    "tests/service/worker/",
    "tests/daemon/test_program.py",
    "tests/cli/",
    "tests/fuse/",
    "tests/packaging/",
    "tests/vfs/",
    "tests/daemon/",
)

# Folders whose shared fixtures take longer than their tests: one process runs the whole folder.
TOGETHER = ("tests/browser/",)


def order(node_id: str) -> tuple[int, str]:
    """Return the sort key of a test's file."""
    at = next((at for at, name in enumerate(LONGEST) if node_id.startswith(name)), len(LONGEST))
    return at, node_id.partition("::")[0]


class LaterFile(pytest.File):
    """A test file that is collected when it is run."""

    def collect(self) -> Iterator[pytest.Item]:
        yield WholeFile.from_parent(self, name="all")


class WholeFile(pytest.Item):
    """All tests of a file."""

    obj = None  # plugins read this attribute of a test

    def runtest(self) -> None:
        raise AssertionError("its tests are run one by one, each with its fixtures")

    def run_all(self, nextitem: pytest.Item | None) -> None:
        """Collect the file's tests as a run of this file alone would, and run them in order."""
        session, config = self.session, self.config
        assert self.parent is not None
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)
        tests = list(session.genitems(module))
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=tests)
        if not tests:
            # Tear down fixtures that were kept for this item.
            session._setupstate.teardown_exact(nextitem)
            return
        # xdist reports the item at this index.
        place = session.items.index(self)
        for test, after in itertools.zip_longest(tests, tests[1:], fillvalue=nextitem):
            assert test is not None
            session.items[place] = test
            config.hook.pytest_runtest_protocol(item=test, nextitem=after)
            if session.shouldfail or session.shouldstop:
                return


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Gives an idle process the next file, in the order of collection."""

    def __init__(self, config: Any, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._done = 0

    def _split_scope(self, nodeid: str) -> str:
        together = (name for name in TOGETHER if nodeid.startswith(name))
        return next(together, nodeid.partition("::")[0])

    def _reschedule(self, node: Any) -> None:
        """Queue at most one further file per process: another process may be idle sooner."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Also scale the displayed progress by the share of files that are done."""
        super().mark_test_complete(node, item_index, duration)
        self._done += 1
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        reported = len(reporter._progress_nodeids_reported)
        reporter._session.testscollected = max(reported * len(self.collection) // self._done, 1)


# ---- pytest hooks ------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["by_files"] = _goes_by_files(node.config)


def _goes_by_files(config: pytest.Config) -> bool:
    """Return whether this run distributes whole files: only a run of all tests does."""
    chosen = config.option.keyword or config.option.markexpr
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not chosen
    return is_whole and config.getvalue("dist") == "loadfile"


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
    if getattr(parent.config, "workerinput", {}).get("by_files"):
        return LaterFile.from_parent(parent, path=module_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, WholeFile):
        return None
    item.run_all(nextitem)
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: order(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None
