"""The page in a browser: by clicks and keys, in light and dark, as wide as a phone."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import wait

from tests.browser.conftest import driver as driver
from tests.daemon.ui.conftest import Reader
from tests.support.daemon_drive import Drive, Remote

SECONDS = 30


class Walker:
    """What a person does with the page."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.complaints()  # of others

    @property
    def text(self) -> str:
        return self.driver.find_element(By.TAG_NAME, "main").text

    def press(self, words: str) -> None:
        """A link or a button by its words, or by what a reader of the screen says of it."""
        said = f"starts-with(normalize-space(.),'{words}') or @aria-label='{words}'"
        self.driver.find_element(By.XPATH, f"//*[self::a or self::button][{said}]").click()

    def until(self, condition: Callable[[], Any]) -> None:
        wait.WebDriverWait(self.driver, SECONDS, 0.05, [Exception]).until(lambda _: condition())

    def look(self, name: str) -> None:
        """A picture for whoever wants to look at it."""
        if folder := os.environ.get("CMSFS_PICTURES"):
            height = self.driver.execute_script("return document.documentElement.scrollHeight")
            metrics = {"width": self.driver.execute_script("return innerWidth"), "height": height}
            self.driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride", metrics | {"deviceScaleFactor": 1, "mobile": False}
            )
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def complaints(self) -> list[str]:
        found: list[dict[str, str]] = self.driver.get_log("browser")
        return [one["message"] for one in found if "favicon" not in one["message"]]


@pytest.fixture
async def conflict(drive: Drive, other: Remote) -> str:
    """The name of a file of which there are two versions."""
    await drive.write("notes.txt", b"Agenda\nbudget 2026\nany other business\n")
    await drive.sync()
    await other.write((await other.find("notes.txt")).id, b"Agenda\nbudget 2027\nany other business\n")
    await drive.write("notes.txt", b"Agenda\nbudget 2025\nany other business\n")
    await drive.sync()
    await drive.poll()
    return "notes.txt"


async def test_a_conflict_is_settled_by_clicks(
    driver: webdriver.Chrome, drive: Drive, other: Remote, conflict: str
) -> None:
    url = (await drive.agents.open_page("", "")).url

    def walk() -> None:
        page = Walker(driver)
        driver.get(url)
        page.until(lambda: page.text.startswith("Overview"))
        # Told by the stream of events, not by the page.
        page.until(lambda: driver.find_element(By.CSS_SELECTOR, "header .state").text == "Up to date")
        page.until(lambda: driver.find_element(By.CSS_SELECTOR, "nav .tab-count").text == "1")
        page.look("overview")
        page.press("Attention")
        page.press("/notes.txt")
        page.until(lambda: "budget 2025" in page.text)
        page.look("conflict")
        page.press("Keep mine")
        page.until(lambda: "is your version now" in page.text)
        assert page.complaints() == []
        driver.get("about:blank")

    await trio.to_thread.run_sync(walk)
    await drive.sync()
    assert await other.read("notes.txt") == b"Agenda\nbudget 2025\nany other business\n"
    assert await drive.names() == ["notes.txt"]


@pytest.mark.long
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
async def test_every_page_fits_and_reads(
    driver: webdriver.Chrome,
    drive: Drive,
    other: Remote,
    reader: Reader,
    conflict: str,
    colours: str,
    width: int,
) -> None:
    folder = await other.folder("Photos of a long holiday by the sea")
    found = await other.file("film.bin", b"z" * 500_000, folder)
    await other.write(found, b"y" * 500_000)
    await drive.poll()
    await drive.read("Photos of a long holiday by the sea/film.bin")
    await drive.write("gone.txt", b"x")
    await drive.sync()
    await drive.unlink("gone.txt")
    await drive.sync()
    await drive.agents.pin("/Photos of a long holiday by the sea")
    url = (await drive.agents.open_page("", "")).url
    film = "item?path=/Photos%20of%20a%20long%20holiday%20by%20the%20sea/film.bin"
    pages = ["", "attention", "conflict?path=/notes.txt", film, "storage", "trash", "search?q=film"]
    pages += [f"sharing?{film.partition('?')[2]}", "activity", "settings", "accounts"]

    def walk() -> None:
        page = Walker(driver)
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": colours}]}
        )
        driver.set_window_size(width, 900)
        if width < 500:  # narrower than a window may be
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": True},
            )
        try:
            driver.get(url)
            page.until(lambda: page.text.startswith("Overview"))
            for name in pages:
                driver.get(f"{url.split('/open')[0]}{reader.at}/{name}")
                page.until(lambda: driver.find_element(By.CSS_SELECTOR, "header .state").text)
                page.look(f"{colours}-{width}-{name.partition('?')[0] or 'overview'}")
                wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, (name, wide)
                _check_readable(driver, name)
            driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
            first = driver.switch_to.active_element
            assert first.text == "Skip to the content"
            assert page.complaints() == []
            driver.get("about:blank")
        finally:
            driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
            driver.set_window_size(1200, 900)

    await trio.to_thread.run_sync(walk)


def _check_readable(driver: webdriver.Chrome, name: str) -> None:
    """What a reader of the screen needs: one heading, named fields, named buttons, unique ids."""
    unnamed = driver.execute_script(
        """return [...document.querySelectorAll(
        "a, button, input:not([type=hidden]), select, textarea, img, progress")]
        .filter(e => !(e.textContent.trim() || e.ariaLabel || e.alt || (e.labels && e.labels.length)))
        .map(e => e.outerHTML)"""
    )
    assert unnamed == [], name
    ids = driver.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), name
    assert len(driver.find_elements(By.TAG_NAME, "h1")) == 1, name
    assert driver.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
