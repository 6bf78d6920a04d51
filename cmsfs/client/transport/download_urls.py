"""Caches the redirect targets of downloads while they are valid.

A service redirects a download request to a URL that is valid for some minutes.  A file that is read range by
range need not request the redirect for every range.

Rule: a URL that returned anything but the contents is dropped, and the service is asked again.
"""

import collections

import trio

# The public API's URLs are valid for a quarter of an hour, which is "subject to change".
LIFETIME_SECONDS = 300
MOST = 1000


class DownloadUrls(collections.OrderedDict[str, tuple[str, float]]):
    """Download URLs with their expiry, by request URL; the oldest are dropped when there are too many."""

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
