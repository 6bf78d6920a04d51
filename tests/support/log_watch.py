"""Collects log messages during a test, and the patterns that the test announced."""

import logging
import re
from collections.abc import Callable

ExpectLog = Callable[[str], None]


class LogWatch(logging.Handler):
    """Collects log records at WARNING or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.expected: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    def unannounced(self) -> list[str]:
        return [line for line in self.lines if not any(re.search(p, line) for p in self.expected)]

    def unheard(self) -> list[str]:
        return [p for p in self.expected if not any(re.search(p, line) for line in self.lines)]
