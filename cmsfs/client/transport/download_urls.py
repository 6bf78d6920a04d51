"""Caches the redirect targets of downloads while they are valid.

A service answers a question for bytes with an address of its own for them, good for some minutes.  Whoever
reads a file range by range need not ask for it each time.

Rule: an address that gave anything but the bytes is forgotten, and the service is asked again.
"""

import collections

import trio

# The public API's are good for a quarter of an hour, which is "subject to change".
LIFETIME_SECONDS = 300
MOST = 1000


class DownloadUrls(collections.OrderedDict[str, tuple[str, float]]):
    """Addresses, and when they end, by what they give; the oldest go first when there are too many."""

    def find(self, what: str) -> str | None:
        address, ends = self.get(what, ("", 0.0))
        if not address or trio.current_time() >= ends:
            self.forget(what)
            return None
        return address

    def keep(self, what: str, address: str) -> None:
        self[what] = (address, trio.current_time() + LIFETIME_SECONDS)
        self.move_to_end(what)
        while len(self) > MOST:
            self.popitem(last=False)

    def forget(self, what: str) -> None:
        self.pop(what, None)
