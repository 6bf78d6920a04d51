"""What the product logs while a story lasts: no error and no traceback, and each line in the trace."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.simulation import judge
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.simulation import Outcome


class _Watch(logging.Handler):
    def __init__(self, outcome: "Outcome", world: World) -> None:
        super().__init__(logging.WARNING)
        self._outcome = outcome
        self._world = world
        self.is_over = False

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage().replace("\n", " ")
        self._world.note(f"log: {record.levelname} {record.msg}")
        if record.exc_info or record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            self._outcome.failures.append(f"logged {record.msg}: {said} {judge.told(error) if error else ''}")


@contextmanager
def watching(outcome: "Outcome", world: World) -> Iterator[None]:
    watch, root = _Watch(outcome, world), logging.getLogger()
    before, root.handlers = root.handlers, [watch]
    try:
        yield
    finally:
        root.handlers = before
