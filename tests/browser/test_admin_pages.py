"""The administrators' pages in a browser: in and out, every form, and what must not work."""

import re

import httpx
import pytest

from tests.browser.conftest import Browser


def token(browser: Browser, client_id: str, secret: str) -> httpx.Response:
    """What the token endpoint says to an application's credentials."""
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    form |= {"box_subject_type": "enterprise", "box_subject_id": "1"}
    return httpx.post(f"{browser.site.url}/oauth2/token", data=form)


def test_the_front_leads_everywhere(browser):
    browser.open("/")
    browser.press("The operations of the API")
    assert browser.path == "/docs"
    browser.press("GET /2.0/search Search for content")
    assert "ancestor_folder_ids" in browser.one("#get_search").text
    browser.press("Administration")
    assert browser.path == "/admin/login"


def test_in_and_out(browser):
    browser.open("/admin/users")
    assert browser.path == "/admin/login"
    browser.log_in(password="a wrong one")
    assert "no administrator's" in browser.alert()
    assert browser.field("Login").get_attribute("value") == "ada@example.com"
    browser.log_in()
    assert browser.path == "/admin"
    assert browser.title == "Example Enterprise"
    at, cookie = browser.at, browser.driver.get_cookie("cmsfs_admin")
    assert cookie["path"] == at != "/admin"
    assert cookie["httpOnly"] is True
    assert cookie["sameSite"] == "Strict"
    browser.press("Log out")
    assert browser.path == "/admin/login"
    browser.open("/admin")
    assert browser.path == "/admin/login"
    # The old cookie is worth nothing, wherever it was kept.
    old = httpx.get(f"{browser.site.url}{at}", cookies={"cmsfs_admin": cookie["value"]})
    assert old.status_code == 303


def test_who_is_no_administrator_stays_out(browser):
    browser.open("/admin")
    browser.log_in("ben@example.com")
    assert "no administrator's" in browser.alert()
    browser.open("/admin")
    assert browser.path == "/admin/login"


def test_the_enterprise_at_a_glance(browser):
    browser.administer()
    glance = browser.one(".glance").text
    for words in ("users", "applications", "items", "in the trash", "legal holds in force"):
        assert re.search(rf"^[1-9]\d*\n{words}$", glance, re.MULTILINE), words
    assert "free on the disk" in glance
    assert "Ada Example" in browser.one("table").text
    for tab, words in (
        ("Users", "ben@example.com"),
        ("Applications", browser.site.client_id),
        ("Legal holds", "active"),
        ("Retention", "remove retention"),
        ("Templates", "Options"),
        ("Trash", "Ada Example"),
        ("Events", "item create"),
    ):
        browser.press(tab)
        assert words in browser.text, tab
        assert browser.one("[aria-current=page]").text == tab


def test_new_password_is_shown_once(browser):
    browser.administer()
    browser.press("Users")
    browser.press("New user")
    browser.fill(Name="Dora <b>Bold</b>", Login="dora@example.com", Role="co-administrator", Space="5")
    browser.press("Create user")
    shown = browser.secrets()
    assert shown["Login"] == "dora@example.com"
    # A name is a name, whatever it looks like.
    assert "Dora <b>Bold</b>" in browser.text
    assert "5.0 GiB" in browser.text
    browser.driver.refresh()
    assert browser.secrets() == {}
    assert shown["Password"] not in browser.driver.page_source
    assert browser.text.count("dora@example.com") == 1
    browser.press("Log out")
    browser.log_in("dora@example.com", shown["Password"])
    assert browser.path == "/admin"
    # A co-administrator changes no administrator, and registers nothing that could.
    browser.press("Users")
    browser.press("New password for Ada Example")
    assert "co-administrator can neither" in browser.text
    browser.press("New password for Dora <b>Bold</b>")
    assert browser.secrets()["Password"] != shown["Password"]
    browser.open("/admin/apps")
    browser.press("New secret for cmsfs")
    assert "Only an administrator" in browser.text
    assert browser.secrets() == {}


def test_form_error_keeps_the_input(browser):
    browser.administer()
    browser.open("/admin/users")
    browser.press("New user")
    browser.fill(Name="Ben again", Login="ben@example.com")
    browser.press("Create user")
    assert browser.alert() == "A user with this login exists already."
    assert browser.field("Name").get_attribute("value") == "Ben again"
    assert "Ben again" not in browser.one("table").text


def test_an_application_whose_secret_is_shown_once(browser):
    browser.administer()
    browser.press("Applications")
    browser.press("New application")
    browser.fill(Name="Scanner", Redirect_URIs="not an address")
    browser.press("Create application")
    assert "whole address" in browser.alert()
    browser.write("Redirect URIs", "https://scanner.example.com/in")
    browser.press("Create application")
    shown = browser.secrets()
    assert "Scanner is registered." in browser.text
    browser.driver.refresh()
    assert browser.secrets() == {}
    assert shown["Client secret"] not in browser.driver.page_source
    assert shown["Client ID"] in browser.driver.page_source
    assert token(browser, shown["Client ID"], shown["Client secret"]).status_code == 200
    browser.press("New secret for Scanner")
    fresh = browser.secrets()
    assert fresh["Client ID"] == shown["Client ID"]
    assert token(browser, shown["Client ID"], shown["Client secret"]).status_code == 400
    assert token(browser, shown["Client ID"], fresh["Client secret"]).status_code == 200


def test_a_hold(browser):
    browser.administer()
    browser.press("Legal holds")
    browser.press("New legal hold")
    browser.fill(
        Name="The matter of Ben", Description="Everything", What_it_covers="What a user owns and has made"
    )
    browser.press("Create hold")
    assert "give its id" in browser.alert()
    browser.write("The id of that", "2002")
    browser.press("Create hold")
    assert "is in force" in browser.text
    assert "1 user" in browser.one("table").text
    browser.press("New legal hold")
    browser.write("Name", "the MATTER of ben")
    browser.press("Create hold")
    assert "exists already" in browser.alert()
    browser.write("Name", "A month")
    browser.write("First day", "01012026")
    browser.write("Last day", "01312026")
    browser.press("Create hold")
    assert "2026-01-01 to 2026-01-31" in browser.text


def test_a_template(browser):
    browser.administer()
    browser.press("Templates")
    browser.press("New template")
    browser.write("Name", "Purchase order")
    for name, value in (("field.1", "Supplier"), ("field.2", "Order state"), ("options.2", "open, paid")):
        browser.one(f"[name='{name}']").send_keys(value)
    browser.press("Create template")
    assert browser.alert() == "Order state cannot have options."
    browser.one("[name='type.2'] [value=enum]").click()
    browser.press("Create template")
    assert "its key is purchaseOrder" in browser.text
    assert "orderState one of the options open, paid" in browser.text


@pytest.mark.parametrize("path", ["users", "apps", "holds", "templates", "logout", "users/2002/password"])
def test_a_form_of_another_site_is_refused(browser, path):
    browser.administer()
    cookies = {"cmsfs_admin": browser.driver.get_cookie("cmsfs_admin")["value"]}
    form = {"name": "planted", "login": "planted@example.com"}
    for proof in ({}, {"form_proof": "0" * 64}):
        answer = httpx.post(f"{browser.site.url}{browser.at}/{path}", data=form | proof, cookies=cookies)
        assert answer.status_code == 403
        assert "not made for this browser" in answer.text
    browser.open(f"/admin/{path.partition('/')[0].replace('logout', 'users')}")
    assert "planted" not in browser.text
    assert browser.secrets() == {}


READABLE = (
    *("", "/users", "/users/2001", "/groups", "/apps", "/holds", "/retention", "/templates", "/webhooks"),
    *("/cascades", "/collaborations", "/links", "/exemptions", "/invitations", "/terms", "/trash", "/events"),
)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_the_pages_are_readable(browser, scheme, width):
    """Every field has a label, in the light and in the dark, and nothing is wider than the window."""
    browser.administer()
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        for path in READABLE:
            browser.open(f"/admin{path}")
            browser.driver.execute_script(
                "for (const one of document.querySelectorAll('details')) one.open = true"
            )
            unnamed = "return [...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
            unnamed += ".filter(one => !one.labels.length && !one.ariaLabel).length"
            assert browser.driver.execute_script(unnamed) == 0, path
            assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= width, path
            back = "return getComputedStyle(document.body).backgroundColor"
            assert (browser.driver.execute_script(back) == "rgb(246, 247, 249)") == (scheme == "light")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_group_and_terms_by_keyboard(browser):
    """Without a pointer: fields and buttons are reached one after the other, and Enter sends a form."""
    from selenium.webdriver import ActionChains, Keys

    browser.administer()
    browser.open("/admin/groups")

    def tab_to(label):
        for _ in range(80):
            ActionChains(browser.driver).send_keys(Keys.TAB).perform()
            element = browser.driver.switch_to.active_element
            named = [*(one.text for one in element.get_property("labels") or ()), element.text]
            if any(text.startswith(label) for text in named):
                return element
        raise AssertionError(f"{label} is not reached")

    tab_to("New group").send_keys(Keys.ENTER)
    tab_to("Name").send_keys("Waders")
    before = browser.one("html")
    tab_to("Create group").send_keys(Keys.ENTER)
    browser.wait_for_next_page(before)
    assert browser.title == "Group Waders"
    browser.open("/admin/terms")
    tab_to("Text").send_keys("Be kind.")
    before = browser.one("html")
    tab_to("Save").send_keys(Keys.ENTER)
    browser.wait_for_next_page(before)
    assert "The terms are saved." in browser.text
