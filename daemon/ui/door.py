"""Authentication of the web page: single-use keys, and the cookies that they are exchanged for.

The user gets a key over the control socket, which only they can access; it authenticates one browser.  The
pages are below a secret path (`PageDoor.place`), and the cookie is restricted to it: cookies are not isolated
by port, so that other local web servers would otherwise receive it.

Rule: requests with another host name are rejected (DNS rebinding), and so are changes by forms of other
sites (CSRF).
"""

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import trio

from cmsfs.replica.nodes import ItemKey, Remote
from cmsfs.runtime import chance

COOKIE = "cmsfs_page"

# Lifetime of a key; the browser is started as soon as there is one.
KEY_SECONDS = 60.0

# Maximum number of authenticated browsers; the oldest is dropped.
MOST_BROWSERS = 32


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of a form, shown once, on the next page."""

    said: str
    failed: bool = False


class Browser:
    """An authenticated browser."""

    def __init__(self) -> None:
        self.notice: Notice | None = None
        # The items of the trash that it was shown last, by kind and id.
        # The findings of `cmsfs doctor`, after it was run.
        self.findings: list[dict[str, str]] | None = None
        self.trashed: dict[ItemKey, Remote] = {}

    def take_notice(self) -> Notice | None:
        """Return the pending notice and clear it."""
        notice, self.notice = self.notice, None
        return notice


class PageDoor:
    """Manages keys and cookies, and checks requests."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.origin = f"http://{self.address}"
        self.place = chance.token_hex(16)
        self._keys: dict[str, tuple[float, str]] = {}
        self._browsers: OrderedDict[str, Browser] = OrderedDict()

    @property
    def at(self) -> str:
        """The path prefix of all pages."""
        return f"/at/{self.place}"

    def new_key(self, to: str) -> str:
        """Return a URL that opens the page `to` (a path below `at`) once, within `KEY_SECONDS`."""
        self._forget_old()
        key = chance.token_urlsafe(24)
        self._keys[key] = (trio.current_time() + KEY_SECONDS, to)
        return f"{self.origin}/open?key={key}"

    @property
    def is_expected(self) -> bool:
        """Whether there is a valid key."""
        self._forget_old()
        return bool(self._keys)

    def exchange(self, key: str) -> tuple[str, str] | None:
        """Return the cookie and the target path for a key; None if the key is invalid or expired."""
        self._forget_old()
        found = next((one for one in self._keys if hmac.compare_digest(one.encode(), key.encode())), None)
        if found is None:
            return None
        _, to = self._keys.pop(found)
        cookie = chance.token_urlsafe(32)
        self._browsers[cookie] = Browser()
        while len(self._browsers) > MOST_BROWSERS:
            self._browsers.popitem(last=False)
        return cookie, f"{self.at}{to}"

    def admits(self, place: str, cookie: str) -> Browser | None:
        """Return the browser with this cookie, for the pages at this place; None if it is invalid."""
        if not hmac.compare_digest(place.encode(), self.place.encode()):
            return None
        for known, browser in self._browsers.items():
            if hmac.compare_digest(known.encode(), cookie.encode()):
                return browser
        return None

    def is_meant(self, headers: Mapping[str, str], *, changes: bool) -> bool:
        """Whether a request has this host and, if it `changes` anything, comes from one of its pages."""
        if headers.get("host", "") != self.address:
            return False
        return not changes or headers.get("origin", "") == self.origin

    def _forget_old(self) -> None:
        now = trio.current_time()
        self._keys = {key: one for key, one in self._keys.items() if one[0] > now}
