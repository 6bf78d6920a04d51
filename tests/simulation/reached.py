"""Coverage of the product's decision tables: counts each decision that stories reach."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cmsfs.journal import queue
from cmsfs.journal.ops import OpKind
from cmsfs.replica import inodes
from cmsfs.replica.merge import decisions
from cmsfs.replica.merge.decisions import Local, News, Verdict
from daemon.push import error_policy

# Which rows `decide` can reach: for an item without a node only `FACTS`; a node that is in no local folder
# never has `PLACE`.  For the root of a drive of one folder only `FACTS`, for that of an account nothing.
_ASKED = {
    Local.UNKNOWN: {News.FACTS},
    Local.OFFERED: {News.FACTS},
    Local.ROOT: {News.FACTS},
    Local.UNLINKED: set(News) - {News.PLACE},
}
MERGE = [
    f"merge: {local.name} {news.name}"
    for local, news in decisions.VERDICTS
    if news in _ASKED.get(local, set(News))
]


# The checks of each kind of operation before it is sent.  A time waits only if sending it fails while its
# file becomes a backup whose upload fails, too: for that there is `tests/daemon/push/test_places.py`.
JOURNAL = [
    f"journal: {kind} {answer}"
    for kind in OpKind
    for answer in ("pointless", "not pointless", "waiting", "not waiting")
    if (kind, answer) != (OpKind.TOUCH, "waiting")
]

_OPEN = {Local.CLEAN: Local.OPEN, Local.PROGRAM: Local.RUNNING}


class _CountingTable(Mapping[tuple[Local, News], Verdict]):
    """The decision table; counts its lookups."""

    def __init__(self, table: Mapping[tuple[Local, News], Verdict], states: Counter[str]) -> None:
        self._table = table
        self._states = states
        self.is_open = False  # whether the node in question is open

    def __getitem__(self, key: tuple[Local, News]) -> Verdict:
        local, news = key
        # The product itself checks for open files only where the verdict depends on it.
        if self.is_open:
            local = _OPEN.get(local, local)
        self._states[f"merge: {local.name} {news.name}"] += 1
        return self._table[local, news]

    def __iter__(self) -> Iterator[tuple[Local, News]]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


@contextlib.contextmanager
def counting_decisions(states: Counter[str]) -> Iterator[None]:
    """Count the decisions of the merge, the journal and the error policy while the context lasts."""
    with contextlib.ExitStack() as stack:

        def put(holder: Any, name: str, value: Any) -> None:
            stack.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)

        def counted_check(name: str, kind: str) -> Callable[..., Any]:
            asked = getattr(queue, name)

            def ask(conn: Any, op: Any, node: Any, *more: Any) -> Any:
                answer = asked(conn, op, node, *more)
                states[f"journal: {op.kind} {kind if answer else 'not ' + kind}"] += 1
                return answer

            return ask

        def verdict(error: Exception, attempts: int) -> Any:
            found = judged(error, attempts)
            states[f"failure: {type(error).__name__} {'held' if found.wait_ns is None else 'again'}"] += 1
            return found

        def decide(conn: Any, node: Any, remote: Any, pending: Any) -> Verdict:
            counted.is_open = node is not None and inodes.is_open(conn, node.ino)
            return decided(conn, node, remote, pending)

        judged = error_policy.verdict_for
        counted = _CountingTable(decisions.VERDICTS, states)
        decided = decisions.decide
        put(decisions, "VERDICTS", counted)
        put(decisions, "decide", decide)
        put(queue, "_is_pointless", counted_check("_is_pointless", "pointless"))
        put(queue, "waits_for", counted_check("waits_for", "waiting"))
        put(error_policy, "verdict_for", verdict)
        yield
