"""A browser, and `cmsfs serve` in its own process for it to visit.

The driver's library is loaded by the first test that uses a browser: each process of a run imports this file.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.server_process import ServerProcess

if TYPE_CHECKING:
    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

ROOT = Path(__file__).parents[2]

BINARIES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1200,900"),
)


class Site:
    """The served service: its URL and credentials."""

    def __init__(self, url: str, file: Path, credentials: dict[str, Any]) -> None:
        self.url = url
        self.credentials = file
        self.client_id: str = credentials["client_id"]
        self.client_secret: str = credentials["client_secret"]
        self.passwords: dict[str, str] = credentials["passwords"]
        # An administrator's: where it is good, and its cookie.
        self.log_in: tuple[str, dict[str, Any]] | None = None


class Browser:
    """Actions of a user at the browser."""

    def __init__(self, driver: webdriver.Chrome, site: Site) -> None:
        self.driver = driver
        self.site = site
        self.at = "/admin"  # where the administrators' pages are for who has logged in

    def open(self, path: str) -> None:
        if path.startswith("/admin"):
            path = self.at + path.removeprefix("/admin")
        self.driver.get(self.site.url + path if path.startswith("/") else path)

    @property
    def path(self) -> str:
        """Where the browser is; of the administrators' pages without the word of the log-in."""
        found = urlsplit(self.driver.current_url).path
        if inside := re.match("/admin/at/[0-9a-f]{32}", found):
            self.at = inside[0]
            return "/admin" + found.removeprefix(self.at)
        return found

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.driver.current_url).query)
        return {name: values[0] for name, values in found.items()}

    @property
    def title(self) -> str:
        return self.driver.title

    @property
    def text(self) -> str:
        return self.driver.find_element("tag name", "main").text

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", css)

    def one(self, css: str) -> WebElement:
        return self.driver.find_element("css selector", css)

    def field(self, label: str) -> WebElement:
        """Find a field by its label, as a screen reader does."""
        fields = "*[self::input or self::select or self::textarea]"
        path = f"//label[starts-with(normalize-space(.), '{label}')]//{fields}"
        return self.driver.find_element("xpath", path)

    def fill(self, **fields: str) -> None:
        """Fill in fields by their labels (underscores stand for spaces)."""
        for label, value in fields.items():
            self.write(label.replace("_", " "), value)

    def write(self, label: str, value: str) -> None:
        element = self.field(label)
        if element.tag_name == "select":
            element.find_element("xpath", f"option[normalize-space(.)='{value}']").click()
            return
        if element.get_attribute("type") != "date":
            element.clear()
        element.send_keys(value)

    def press(self, words: str) -> None:
        """Click a button, a link or a fold by its text."""
        said = f"normalize-space(.)='{words}' or @aria-label='{words}'"
        path = f"//*[self::button or self::a or self::summary][{said}]"
        element = self.driver.find_element("xpath", path)
        before, folds = self.one("html"), element.tag_name == "summary"
        element.click()
        if not folds:
            self.wait_for_next_page(before)

    def wait_for_next_page(self, before: WebElement) -> None:
        """Wait until `before`, an element of this page, is gone: no other page is mistaken for it."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support import expected_conditions, wait

        # During the transition the driver knows neither of them.
        waiting = wait.WebDriverWait(self.driver, 30, 0.05, [WebDriverException])
        waiting.until(expected_conditions.staleness_of(before))

    def log_in(self, login: str = "ada@example.com", password: str | None = None) -> None:
        self.fill(Login=login, Password=password or self.site.passwords[login])
        self.press("Log in")

    def administer(self) -> None:
        """Log in as an administrator, or reuse the earlier session if it is still valid."""
        if self.site.log_in is not None:
            self.at, cookie = self.site.log_in
            wanted = {key: cookie[key] for key in ("name", "value", "path", "httpOnly", "sameSite")}
            self.driver.execute_cdp_cmd("Network.setCookie", wanted | {"url": self.site.url})
        self.open("/admin")
        if self.path != "/admin":
            self.log_in()
            assert self.path == "/admin", self.text
            self.site.log_in = self.at, self.driver.get_cookie("cmsfs_admin")

    def secrets(self) -> dict[str, str]:
        """Return a secret that the page shows only once."""
        return {one.get_attribute("data-secret") or "": one.text for one in self.all("[data-secret]")}

    def alert(self) -> str:
        return self.one("[role=alert]").text

    def complaints(self) -> list[str]:
        """Return the browser's own messages: violated policies, missing resources."""
        found: list[dict[str, str]] = self.driver.get_log("browser")
        # Error responses are logged there as well; tests cause them on purpose.
        return [
            one["message"] for one in found if "the server responded with a status of 4" not in one["message"]
        ]


@pytest.fixture(scope="session")
def driver() -> Iterator[webdriver.Chrome]:
    """Chromium, started once for all tests."""
    from selenium import webdriver

    binary = next(filter(None, map(shutil.which, BINARIES)), None)
    agent = shutil.which("chromedriver")
    if binary is None or agent is None:
        pytest.skip("there is no Chromium with its chromedriver here; packaging/setup test installs both")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        started = webdriver.Chrome(options=options, service=webdriver.ChromeService(agent))
        started.set_page_load_timeout(30)
        yield started
        started.quit()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, driver: webdriver.Chrome) -> Iterator[Site]:
    """`cmsfs serve` with the sample enterprise."""
    home = tmp_path_factory.mktemp("site")
    server = ServerProcess(home / "data", env=os.environ | {"HOME": str(home)}).start()
    yield Site(server.url, Path(server.ready_info["credentials_file"]), server.credentials)
    assert server.stop() == 0


@pytest.fixture
def browser(driver: webdriver.Chrome, site: Site) -> Iterator[Browser]:
    """The browser without cookies; it must have logged no messages at the end."""
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    one = Browser(driver, site)
    one.complaints()
    yield one
    assert one.complaints() == []
