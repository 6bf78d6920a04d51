"""Uploads of large files in a browser: broken connections, pages that are left, versions, cancelling."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser import test_web_pages
from tests.browser.conftest import Browser
from tests.browser.test_web_pages import choose, listed, make_folder, says, until

pytestmark = pytest.mark.long

ada = test_web_pages.ada

# Five parts, the last one short.
SIZE = 33_600_000
SHOWN = "32.0 MiB"
# Bytes per second, so that an upload takes some seconds.
SLOW = 8_000_000

_COUNT = """
const open = XMLHttpRequest.prototype.open;
window.sent = 0;
XMLHttpRequest.prototype.open = function (method, ...rest) {
  if (method === "PUT") window.sent += 1;
  open.call(this, method, ...rest);
};
"""
_DOWNLOAD = """
const [url, done] = arguments;
fetch(url).then((one) => one.arrayBuffer()).then((data) => {
  done(btoa(new Sha1().update(new Uint8Array(data)).digest()));
});
"""
_HASH = """
return arguments[0].map((text) => {
  const hashed = new Sha1();
  for (let at = 0; at < text.length; at += 37) {
    hashed.update(Uint8Array.from(text.slice(at, at + 37), (one) => one.charCodeAt(0)));
  }
  return btoa(hashed.digest());
});
"""

Network = Callable[..., None]


def _sha1(data: bytes) -> str:
    return base64.b64encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "film.bin"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def network(ada: Browser) -> Iterator[Network]:
    """`network(is_there, rate)`: whether the browser reaches the service, and how fast it sends."""
    driver = ada.driver
    driver.execute_cdp_cmd("Network.enable", {})

    def become(is_there: bool, rate: int = -1) -> None:
        shape = {"offline": not is_there, "latency": 0, "downloadThroughput": -1, "uploadThroughput": rate}
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", shape)

    yield become
    become(True)
    # It tells of each request that failed; whatever else it complains of fails the test.
    assert all("ERR_INTERNET_DISCONNECTED" in one for one in ada.complaints())


def percent(browser: Browser) -> int:
    words = [one.text for one in browser.all(".transfers .soft") if one.text.endswith(" %")]
    return int(words[0].removesuffix(" %")) if words else -1


def downloaded(browser: Browser, name: str) -> str:
    """Return the SHA-1 of what the file's page has for downloading."""
    browser.press(name)
    url = f"{browser.driver.current_url}/content"
    found: str = browser.driver.execute_async_script(_DOWNLOAD, url)
    return found


def test_upload_goes_on_after_the_connection_broke(ada: Browser, network: Network, large: Path) -> None:
    make_folder(ada, "Broken")
    network(True, SLOW)
    choose(ada, large)
    until(ada, lambda: percent(ada) >= 40)
    network(False)
    says(ada, "The connection broke. Trying again.")
    network(True)
    listed(ada, "film.bin", SHOWN)
    assert downloaded(ada, "film.bin") == _sha1(large.read_bytes())


def test_upload_that_cannot_go_on_says_so_and_is_tried_again(
    ada: Browser, network: Network, large: Path
) -> None:
    make_folder(ada, "Given up")
    network(True, SLOW)
    choose(ada, large)
    until(ada, lambda: percent(ada) >= 30)
    network(False)

    def has_given_up() -> bool:
        # Each wait ends early when the network is said to be back.
        ada.driver.execute_script("window.dispatchEvent(new Event('online'))")
        return "What has arrived is kept: try again" in ada.text

    until(ada, has_given_up)
    network(True)
    ada.one("[aria-label='Try film.bin again']").click()
    listed(ada, "film.bin", SHOWN)


def test_upload_goes_on_when_the_file_is_chosen_again(ada: Browser, network: Network, large: Path) -> None:
    make_folder(ada, "Left")
    network(True, SLOW)
    choose(ada, large)
    until(ada, lambda: percent(ada) >= 60)
    network(False)
    says(ada, "The connection broke.")
    ada.driver.execute_script("window.onbeforeunload = null")
    network(True)
    ada.driver.refresh()
    ada.driver.execute_script(_COUNT)
    network(True, SLOW)
    choose(ada, large)
    until(ada, lambda: percent(ada) >= 90)
    assert 1 <= ada.driver.execute_script("return window.sent") <= 3
    network(True)
    listed(ada, "film.bin", SHOWN)
    assert ada.driver.execute_script("return localStorage.length") == 0
    assert downloaded(ada, "film.bin") == _sha1(large.read_bytes())


def test_large_file_becomes_a_version_and_a_cancelled_one_nothing(
    ada: Browser, network: Network, large: Path
) -> None:
    make_folder(ada, "Versions")
    choose(ada, large)
    listed(ada, "film.bin", SHOWN)
    large.write_bytes(os.urandom(SIZE + 3_000_000))
    choose(ada, large)
    says(ada, "There is something of this name already.")
    ada.one("[aria-label='Upload film.bin as a new version']").click()
    listed(ada, "film.bin", "34.9 MiB")
    assert downloaded(ada, "film.bin") == _sha1(large.read_bytes())
    ada.press("Versions")
    other = large.rename(large.with_name("other.bin"))
    network(True, SLOW)
    choose(ada, other)
    until(ada, lambda: percent(ada) >= 10)
    ada.one("[aria-label='Cancel other.bin']").click()
    says(ada, "Cancelled.")
    assert ada.driver.execute_script("return localStorage.length") == 0
    ada.one("[aria-label='Dismiss other.bin']").click()
    until(ada, lambda: not ada.all(".transfers li"))
    assert "other.bin" not in ada.text


def test_the_script_hashes_as_others_do(ada: Browser) -> None:
    texts = [os.urandom(size) for size in (*range(140), 1000, 5000)]
    found = ada.driver.execute_script(_HASH, [text.decode("latin-1") for text in texts])
    assert found == [_sha1(text) for text in texts]
