"""The authorize page in a browser, with an application that waits for the code."""

import base64
import hashlib
import http.server
import secrets
import threading
from urllib.parse import urlencode

import httpx
import pytest


class _Callback(http.server.BaseHTTPRequestHandler):
    """The application's page that the browser comes back to, with its icon: nothing is asked for later."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>back</title><link rel=icon href='data:,'><main>You may close this.</main>")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def back():
    """The redirect URI of an application that listens."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Callback) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/callback"
        server.shutdown()
        thread.join()


VERIFIER = secrets.token_urlsafe(40)
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


def address(browser, back, **more):
    query = {"response_type": "code", "client_id": browser.site.client_id, "redirect_uri": back}
    query |= {"state": "a state & more", "code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    return "/oauth2/authorize?" + urlencode(query | more)


def exchange(browser, code, **more):
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
    form |= {"client_id": browser.site.client_id, "client_secret": browser.site.client_secret}
    return httpx.post(f"{browser.site.url}/oauth2/token", data=form | more)


def test_login_consent_and_code_exchange(browser, back):
    browser.open(address(browser, back, scope="root_readonly"))
    assert browser.title == "Log in"
    browser.log_in("ben@example.com", "a wrong one")
    assert "do not go together" in browser.alert()
    browser.log_in("ben@example.com")
    assert browser.title == "Give cmsfs access?"
    assert "Read all files and folders" in browser.text
    assert "Manage" not in browser.text
    assert "ben@example.com" in browser.text
    browser.press("Grant access")
    assert browser.title == "back"
    assert browser.driver.current_url.startswith(f"{back}?")
    assert browser.query["state"] == "a state & more"
    code = browser.query["code"]
    assert exchange(browser, code, code_verifier="w" * 43).status_code == 400
    # The wrong verifier used the code up; whoever is logged in only consents again.
    browser.open(address(browser, back, scope="root_readonly"))
    browser.press("Grant access")
    made = exchange(browser, browser.query["code"]).json()
    headers = {"authorization": f"Bearer {made['access_token']}"}
    me = httpx.get(f"{browser.site.url}/2.0/users/me", headers=headers).json()
    assert me["login"] == "ben@example.com"
    denied = httpx.post(
        f"{browser.site.url}/2.0/folders", headers=headers, json={"name": "x", "parent": {"id": "0"}}
    )
    assert denied.status_code == 403
    assert exchange(browser, browser.query["code"]).status_code == 400


def test_who_denies_goes_back_without_a_code(browser, back):
    browser.open(address(browser, back))
    browser.log_in("cleo@example.com")
    browser.press("Deny")
    assert browser.title == "back"
    assert browser.query["error"] == "access_denied"
    assert browser.query["state"] == "a state & more"
    assert "code" not in browser.query


def test_somebody_else(browser, back):
    browser.open(address(browser, back))
    browser.log_in("cleo@example.com")
    browser.press("Log in as somebody else")
    assert browser.title == "Log in"
    browser.log_in("ben@example.com")
    assert "ben@example.com" in browser.text


def test_wrong_redirect_uri_is_not_followed(browser):
    browser.open(address(browser, "https://evil.example.com/in"))
    assert browser.path == "/oauth2/authorize"
    assert browser.title == "This request cannot be answered"


def test_authorize_login_does_not_open_admin_console(browser, back):
    browser.open(address(browser, back))
    browser.log_in("ada@example.com")
    cookie = browser.driver.get_cookie("cmsfs_login")["value"]
    browser.open("/admin")
    assert browser.path == "/admin/login"
    planted = httpx.get(f"{browser.site.url}/admin", cookies={"cmsfs_admin": cookie})
    assert planted.status_code == 303
