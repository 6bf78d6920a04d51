"""What of the product's decisions stories reach: each is counted."""

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

# What `decide` asks of the table: of an item without a node, and of the root, only that there is news; and
# an item whose node is in no folder here is a version that came back, wherever it is.
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


# What is asked of each kind of operation before it is sent.
JOURNAL = [
    f"journal: {kind} {answer}"
    for kind in OpKind
    for answer in ("pointless", "not pointless", "waiting", "not waiting")
]

_OPEN = {Local.CLEAN: Local.OPEN, Local.PROGRAM: Local.RUNNING}


class _Counted(Mapping[tuple[Local, News], Verdict]):
    """The table; what is asked of it is counted."""

    def __init__(self, table: Mapping[tuple[Local, News], Verdict], states: Counter[str]) -> None:
        self._table = table
        self._states = states
        self.is_open = False  # the node that is decided about

    def __getitem__(self, key: tuple[Local, News]) -> Verdict:
        local, news = key
        # What becomes of place and facts does not depend on that: the product does not ask then.
        if self.is_open:
            local = _OPEN.get(local, local)
        self._states[f"merge: {local.name} {news.name}"] += 1
        return self._table[local, news]

    def __iter__(self) -> Iterator[tuple[Local, News]]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


@contextlib.contextmanager
def counting(states: Counter[str]) -> Iterator[None]:
    """Count what is decided while this lasts: by the merge, by the journal, and about failures."""
    with contextlib.ExitStack() as stack:

        def put(holder: Any, name: str, value: Any) -> None:
            stack.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)

        def told(name: str, kind: str) -> Callable[..., Any]:
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
        counted = _Counted(decisions.VERDICTS, states)
        decided = decisions.decide
        put(decisions, "VERDICTS", counted)
        put(decisions, "decide", decide)
        put(queue, "_is_pointless", told("_is_pointless", "pointless"))
        put(queue, "_waits_for", told("_waits_for", "waiting"))
        put(error_policy, "verdict_for", verdict)
        yield
