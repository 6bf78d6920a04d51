"""Sharing on the page: the link and its terms, and the people of an item."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import trio
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from tests.browser.conftest import driver as driver
from tests.daemon.ui.conftest import Reader, Visit
from tests.daemon.ui.test_browser import Walker
from tests.support.daemon_drive import Drive, Remote


async def test_a_link_is_made_and_changed(visit: Visit, drive: Drive, other: Remote) -> None:
    found = await other.file("a & b.txt", b"x")
    await drive.names()
    links = other.client.shared_links
    reader = await visit("sharing", "/a & b.txt")
    assert "There is none." in await reader.get("sharing", path="/a & b.txt")
    day = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()
    terms = {"access": "company", "password": "a <secret>", "until": day, "download": "1"}
    told = await reader.post("share", path="/a & b.txt", **terms)
    link = await links.get("file", found)
    assert link is not None
    assert link.url is not None
    assert link.url in told
    assert "secret" not in told
    assert (link.access, link.is_password_enabled) == ("company", True)
    assert link.unshared_at is not None
    assert link.unshared_at.astimezone().date().isoformat() == day
    # What the form does not change stays.
    assert "as it was" in await reader.post(
        "share", path="/a & b.txt", access="company", until=day, download="1"
    )
    assert await links.get("file", found) == link
    changed = {"access": "open", "no_password": "1", "until": ""}
    await reader.post("share", path="/a & b.txt", **changed)
    after = await links.get("file", found)
    assert after is not None
    assert (after.url, after.access, after.is_password_enabled) == (link.url, "open", False)
    assert after.unshared_at is None
    assert after.permissions is not None
    assert not after.permissions.can_download
    assert "is in the past" in await reader.post("share", path="/a & b.txt", until="2020-01-01", download="1")
    assert "is removed" in await reader.post("unshare", path="/a & b.txt")
    assert await links.get("file", found) is None
    assert "The whole drive cannot be shared" in await reader.get("sharing", path="/")


async def test_people_are_invited_and_removed(
    reader: Reader, drive: Drive, other: Remote, ben: Remote
) -> None:
    folder = await other.folder("Team")
    await other.file("plan.txt", b"x", folder)
    await drive.names("Team")
    wish = {"path": "/Team", "role": "editor", "until": ""}
    assert "Ben Tester" in await reader.post("invite", person="ben@example.com", **wish)
    (one,) = [one async for one in other.client.collaborations.of("folder", folder)]
    assert one.role == "editor"
    text = await reader.get("sharing", path="/Team/plan.txt")
    assert "Ben Tester &lt;ben@example.com&gt;</td><td>editor</td>" in text
    assert "by Team" in text
    assert "uninvite" not in text
    # The same again is another role, and no second invitation.
    assert "viewer" in await reader.post("invite", person="ben@example.com", **wish | {"role": "viewer"})
    (one,) = [one async for one in other.client.collaborations.of("folder", folder)]
    assert one.role == "viewer"
    assert "Say whom" in await reader.post("invite", person=" ", **wish)
    assert "Say whom" in await reader.post("invite", person="ben@example.com", **wish | {"role": "owner"})
    (number,) = re.findall(r'name="id" value="(\d+)"', await reader.get("sharing", path="/Team"))
    assert "not collaborate on it" in await reader.post("uninvite", path="/Team/plan.txt", id=number)
    assert "not collaborate any more" in await reader.post("uninvite", path="/Team", id=number)
    assert [one async for one in other.client.collaborations.of("folder", folder)] == []


@pytest.mark.long
async def test_an_item_is_shared_by_clicks(
    driver: webdriver.Chrome, drive: Drive, other: Remote, ben: Remote
) -> None:
    folder = await other.folder("Harbour")
    await drive.names()
    url = (await drive.agents.open_page("item", "/Harbour")).url

    def walk() -> None:
        page = Walker(driver)
        driver.get(url)
        page.until(lambda: "/Harbour" in driver.find_element(By.TAG_NAME, "h1").text)
        page.press("Share")
        page.until(lambda: "Shared link" in page.text)
        Select(driver.find_element(By.NAME, "access")).select_by_visible_text("People of the company")
        driver.find_element(By.NAME, "password").send_keys("tide")
        page.press("Make a link")
        page.until(lambda: "The link is made." in page.text)
        driver.find_element(By.NAME, "person").send_keys("ben@example.com")
        Select(driver.find_element(By.NAME, "role")).select_by_visible_text("editor")
        page.press("Invite")
        page.until(lambda: "Ben Tester <ben@example.com>: editor" in page.text)
        page.look("sharing")
        assert page.complaints() == []
        driver.get("about:blank")

    await trio.to_thread.run_sync(walk)
    link = await other.client.shared_links.get("folder", folder)
    assert link is not None
    assert (link.access, link.is_password_enabled) == ("company", True)
    (one,) = [one async for one in other.client.collaborations.of("folder", folder)]
    assert one.role == "editor"
