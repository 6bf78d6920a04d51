"""The pages behind shared links in a browser: a folder, its password, a file below, its download."""

from typing import Any

import httpx
import pytest

from tests.browser.conftest import Browser


class _Owner:
    def __init__(self, browser: Browser) -> None:
        form = {"grant_type": "client_credentials", "client_id": browser.site.client_id}
        form |= {"client_secret": browser.site.client_secret}
        form |= {"box_subject_type": "enterprise", "box_subject_id": "1"}
        token = httpx.post(f"{browser.site.url}/oauth2/token", data=form).json()["access_token"]
        self.http = httpx.Client(base_url=browser.site.url, headers={"authorization": f"Bearer {token}"})

    def folder(self, name: str) -> str:
        body = {"name": name, "parent": {"id": "0"}}
        return str(self.http.post("/2.0/folders", json=body).json()["id"])

    def upload(self, name: str, data: bytes, parent: str) -> None:
        attributes = f'{{"name": "{name}", "parent": {{"id": "{parent}"}}}}'
        files: dict[str, Any] = {"attributes": (None, attributes), "file": (name, data)}
        answer = self.http.post("/api/2.0/files/content", files=files)
        assert answer.status_code == 201, answer.text

    def share(self, folder: str, **terms: str) -> str:
        body = {"shared_link": {"access": "open"} | terms}
        answer = self.http.put(f"/2.0/folders/{folder}?fields=shared_link", json=body)
        return str(answer.json()["shared_link"]["url"])


@pytest.fixture
def owner(browser):
    made = _Owner(browser)
    yield made
    made.http.close()


def test_a_folder_behind_a_password(browser, owner):
    folder = owner.folder("For <everybody>")
    owner.upload("notes.txt", b"words to read", folder)
    browser.open(owner.share(folder, password="open sesame"))
    assert browser.title == "This link has a password"
    browser.fill(Password="wrong")
    browser.press("Open")
    assert "not the password" in browser.alert()
    browser.fill(Password="open sesame")
    browser.press("Open")
    assert browser.title == "For <everybody>"
    browser.press("notes.txt")
    assert "13 bytes" in browser.text
    # The page looks again by itself until the preview is there.
    for _ in range(60):
        if "words to read" in browser.text:
            break
        browser.open(browser.driver.current_url)
    button = browser.one("a.button")
    assert button.text == "Download"
    address = button.get_attribute("href")
    cookies = {one["name"]: one["value"] for one in browser.driver.get_cookies()}
    assert httpx.get(address, cookies=cookies).content == b"words to read"
    assert httpx.get(address).status_code == 404
    browser.press("The folder above")
    assert browser.title == "For <everybody>"
    problems = [one for one in browser.driver.get_log("browser") if one["level"] == "SEVERE"]
    assert [one for one in problems if "403" not in one["message"] and "favicon" not in one["message"]] == []


def test_a_link_that_shows_nothing(browser):
    browser.open("/s/nonsense")
    assert browser.title == "There is nothing here"
