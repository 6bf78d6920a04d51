"""Tells the ledger which appended data the drives move to conflict copies (`operations.append_merge`)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daemon.push.operations import append_merge
from tests.simulation.ledger import Ledger


@contextlib.contextmanager
def noting_joins(ledger: Ledger) -> Iterator[None]:
    """Note what each copy should become, before the drive makes it."""
    join: Any = append_merge._join

    async def noting(
        context: Any, task: Any, node: Any, path: Path, theirs: Any, copy: Any, held: Any, base: Any
    ) -> Any:
        with contextlib.suppress(OSError):
            ledger.may_join(path.read_bytes(), base.size, copy.sha1)
        return await join(context, task, node, path, theirs, copy, held, base)

    append_merge._join = noting
    try:
        yield
    finally:
        append_merge._join = join
