"""How a run on several processors shares the tests out: by files, those that take longest first."""

from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

# Files and folders whose tests start programs, mount drives and wait for both: the last to end would be the
# only one running if it began late.  The others follow in their order.
LONGEST = (
    "tests/cli/guides/",
    "tests/drive/",
    "tests/browser/",
    "tests/service/api/",
    "tests/service/worker/",
    "tests/daemon/test_program.py",
    "tests/cli/",
    "tests/fuse/",
    "tests/packaging/",
    "tests/vfs/",
    "tests/daemon/",
)

# What its files share takes longer to start than they take.
TOGETHER = ("tests/browser/",)


def order(node_id: str) -> tuple[int, str]:
    """The place of a test among those of other files."""
    at = next((at for at, name in enumerate(LONGEST) if node_id.startswith(name)), len(LONGEST))
    return at, node_id.partition("::")[0]


def files(root: Path, *, workerid: str, workercount: int, **_: object) -> list[str]:
    """What a process collects, beginning at a file of its own.

    In a fresh checkout all would compile the same files at the same time; so each finds most of them done.
    """
    found = sorted(map(str, (root / "tests").rglob("test_*.py")))
    begin = int(workerid.removeprefix("gw")) * len(found) // workercount
    return found[begin:] + found[:begin]


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process that is free the next file, in the order of the collection."""

    def __init__(self, config: Any, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        together = (name for name in TOGETHER if nodeid.startswith(name))
        return next(together, nodeid.partition("::")[0])
