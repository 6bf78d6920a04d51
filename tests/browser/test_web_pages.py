"""The people's pages in a browser: uploads, sharing, versions, trash, a phone's width, the keyboard."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.browser.conftest import Browser

pytestmark = pytest.mark.long

_PATIENCE = 60
# What a person drops on the page, as the browser hands it over.
_DROP = """
const data = new DataTransfer();
data.items.add(new File([arguments[1]], arguments[0]));
document.querySelector("main").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
"""


def until(browser: Browser, condition: Callable[[], bool]) -> None:
    """Wait for this, through as many loads of the page as that takes."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.support import wait

    waiting = wait.WebDriverWait(browser.driver, _PATIENCE, 0.05, [WebDriverException])
    waiting.until(lambda _: condition())


def says(browser: Browser, words: str) -> None:
    until(browser, lambda: words in browser.text)


def listed(browser: Browser, *words: str) -> None:
    """The folder was read anew after its uploads, and its table says this."""

    def is_there() -> bool:
        text = browser.one("table").text
        return not browser.all(".transfers li") and all(one in text for one in words)

    until(browser, is_there)


@pytest.fixture
def ada(browser):
    browser.open("/web/shared")
    browser.log_in()
    assert browser.title == "Shared with you"
    browser.press("Files")
    return browser


def make_folder(browser: Browser, name: str) -> None:
    browser.press("New folder")
    browser.write("Name of the folder", name)
    browser.press("Create folder")
    browser.press(name)


def choose(browser: Browser, *paths: Path) -> None:
    browser.one("input[type=file]").send_keys("\n".join(map(str, paths)))


def test_upload_share_and_restore_in_the_browser(ada, tmp_path):
    make_folder(ada, "Desk")
    first, second = tmp_path / "plan <b>.txt", tmp_path / "large.bin"
    first.write_text("a first thought")
    second.write_bytes(bytes(4 << 20))
    choose(ada, first, second)
    listed(ada, "4.0 MiB", "plan <b>.txt")
    # The same name again: a question, and the answer is a version.
    first.write_text("a second thought")
    choose(ada, first)
    says(ada, "New version")
    ada.one("[aria-label^='Upload plan']").click()
    listed(ada, "16 bytes")
    ada.driver.execute_script(_DROP, "dropped.txt", "dropped words")
    listed(ada, "dropped.txt")
    ada.press("plan <b>.txt")
    says(ada, "a second thought")
    restore = ada.one("[aria-label^='Restore the version']").get_attribute("aria-label")
    ada.press(restore)
    says(ada, "a first thought")
    ada.press("Create a shared link")
    ada.press("Create link")
    link = ada.one("[data-copy]").get_attribute("value")
    assert "a first thought" in httpx.get(link, follow_redirects=True).text
    ada.fill(Invite="ben@example.com")
    ada.press("Invite")
    assert "Ben Sample" in ada.text
    ada.press("Delete")
    assert "is in the trash now" in ada.text
    assert httpx.get(link).status_code == 404
    ada.press("Trash")
    ada.one("[aria-label='Tick plan <b>.txt']").click()
    ada.press("Restore")
    ada.press("Log out")
    ada.open("/web/shared")
    ada.log_in("ben@example.com")
    assert "plan <b>.txt" in ada.text


def test_upload_that_is_refused_is_said_and_tried_again(ada, tmp_path):
    make_folder(ada, "Refused")
    bad = tmp_path / "a.txt"
    bad.write_text("x")
    proof = ada.driver.execute_script(
        "const box = document.querySelector('[data-upload]'), kept = box.dataset.proof;"
        "box.dataset.proof = 'wrong'; return kept"
    )
    choose(ada, bad)
    says(ada, "Try again")
    assert "was not made for this browser" in ada.text
    ada.driver.execute_script("document.querySelector('[data-upload]').dataset.proof = arguments[0]", proof)
    ada.one("[aria-label='Try a.txt again']").click()
    listed(ada, "a.txt")


# Cells that begin where the text of the one before ends.
TOUCHING_CELLS = """
return [...document.querySelectorAll('.items td + td')].filter(one => {
  const text = document.createRange();
  text.selectNodeContents(one.previousElementSibling);
  const before = text.getBoundingClientRect(), here = one.getBoundingClientRect();
  return here.width && before.bottom > here.top + 4 && before.right + 4 > here.left;
}).map(one => one.textContent)
"""


def test_pages_by_keyboard_and_on_a_phone(ada):
    from selenium.webdriver import ActionChains, Keys

    def focused() -> str:
        element = ada.driver.switch_to.active_element
        return element.get_attribute("aria-label") or element.text or element.tag_name

    ActionChains(ada.driver).send_keys(Keys.TAB).perform()
    assert focused() == "To the content"
    seen = []
    for _ in range(70):
        ActionChains(ada.driver).send_keys(Keys.TAB).perform()
        seen.append(focused())
    for wanted in ("Trash", "Search your files", "New folder", "Tick Welcome.md", "Welcome.md", "Delete"):
        assert wanted in seen, wanted
    # The control for uploads is reached, too: a file field below its label.
    assert "input" in seen
    phone = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    ada.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for tab in ("Files", "Recent", "Favorites", "Shared", "Trash"):
            ada.press(tab)
            assert ada.driver.execute_script("return document.documentElement.scrollWidth") <= 360, tab
            assert ada.driver.execute_script(TOUCHING_CELLS) == [], tab
        ada.press("Files")
        ada.press("Welcome.md")
        assert ada.driver.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        ada.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
