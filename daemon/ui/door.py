"""Who may see the page: keys that are good once, and the cookies that they are exchanged for.

A key comes to the person by the control socket, which is theirs alone, and opens one browser.  The pages are
below a word that nobody else knows (`PageDoor.place`), and the cookie is sent there only: cookies are not
told apart by port, so another program's page on this machine would be sent one that is for all of it.

Rule: nothing is answered to another name of this machine (a page elsewhere may have one made that leads
here), and nothing is changed by what another page's form sends.
"""

import hmac
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import trio

from cmsfs.replica.nodes import ItemKey, Remote
from cmsfs.runtime import chance

COOKIE = "cmsfs_page"

# The browser is started as soon as there is a key.
KEY_SECONDS = 60.0

# Browsers that may be open at the same time; the one that was opened first gives way.
MOST_BROWSERS = 32


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of a form, shown once, on the next page."""

    said: str
    failed: bool = False


class Browser:
    """One that was let in."""

    def __init__(self) -> None:
        self.notice: Notice | None = None
        # Items of the trash that it was shown last, by kind and id.
        # What `cmsfs doctor` has found, once it was asked.
        self.findings: list[dict[str, str]] | None = None
        self.trashed: dict[ItemKey, Remote] = {}

    def take_notice(self) -> Notice | None:
        """What is to be told now, and not again."""
        notice, self.notice = self.notice, None
        return notice


class PageDoor:
    """Keys, cookies, and the checks of a request."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.origin = f"http://{self.address}"
        self.place = chance.token_hex(16)
        self._keys: dict[str, tuple[float, str]] = {}
        self._browsers: OrderedDict[str, Browser] = OrderedDict()

    @property
    def at(self) -> str:
        """What the paths of all pages begin with."""
        return f"/at/{self.place}"

    def new_key(self, to: str) -> str:
        """The address that opens the page at `to` (a path below `at`), once and soon."""
        self._forget_old()
        key = chance.token_urlsafe(24)
        self._keys[key] = (trio.current_time() + KEY_SECONDS, to)
        return f"{self.origin}/open?key={key}"

    @property
    def is_expected(self) -> bool:
        """Whether somebody has a key that is still good."""
        self._forget_old()
        return bool(self._keys)

    def exchange(self, key: str) -> tuple[str, str] | None:
        """The cookie for a key and where it leads; None: it is not good, or not any more."""
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
        """The browser that has this cookie, for the pages at this place."""
        if not hmac.compare_digest(place.encode(), self.place.encode()):
            return None
        for known, browser in self._browsers.items():
            if hmac.compare_digest(known.encode(), cookie.encode()):
                return browser
        return None

    def is_meant(self, headers: Mapping[str, str], *, changes: bool) -> bool:
        """Whether a request was made for this address, and by one of its pages if it `changes` anything."""
        if headers.get("host", "") != self.address:
            return False
        return not changes or headers.get("origin", "") == self.origin

    def _forget_old(self) -> None:
        now = trio.current_time()
        self._keys = {key: one for key, one in self._keys.items() if one[0] > now}
