"""Flash messages: confirmations and new secrets that are shown once on the next page.

A form's answer is a redirection, so that a reload repeats nothing; what there is to say waits here in
between, in memory only, for the browser that it is meant for.

Rule: what was taken is gone.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

# More browsers than this do not wait for an answer at once.
_MAX = 100


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """A sentence, and secrets by what they are; `failed` is a sentence about what was not done."""

    said: str
    secrets: dict[str, str] = field(default_factory=dict)
    failed: bool = False


class FlashMessages:
    """Notices by browser, each until it is looked at."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, FlashMessage] = OrderedDict()

    def put(self, browser: str, notice: FlashMessage) -> None:
        self._waiting[browser] = notice
        while len(self._waiting) > _MAX:
            self._waiting.popitem(last=False)

    def take(self, browser: str) -> FlashMessage | None:
        return self._waiting.pop(browser, None)
