"""Flash messages: confirmations and new secrets that are shown once on the next page.

A form is answered with a redirect, so that a reload repeats nothing; until the next page, its message is kept
in memory, for the browser that sent the form.

Rule: a message is deleted when it is taken.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

# Most messages kept; no more browsers than this wait for a response at once.
_MAX = 100


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """A message with secrets by their names; `failed` marks a message about something that was not done."""

    text: str
    secrets: dict[str, str] = field(default_factory=dict)
    failed: bool = False


class FlashMessages:
    """Messages by browser, kept until they are shown."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, FlashMessage] = OrderedDict()

    def put(self, browser: str, notice: FlashMessage) -> None:
        self._waiting[browser] = notice
        while len(self._waiting) > _MAX:
            self._waiting.popitem(last=False)

    def take(self, browser: str) -> FlashMessage | None:
        return self._waiting.pop(browser, None)
