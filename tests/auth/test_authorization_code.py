"""Whose answer the listener believes: the browser's that it sent, with this log-in's state."""

import os
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import trio

from cmsfs import errors
from cmsfs.auth import authorization_code, loopback_peers


class Attempt:
    """A log-in that waits for its browser."""

    def __init__(self, listener: authorization_code.Listener) -> None:
        self.listener = listener
        self.asked = authorization_code.Consent(
            "https://files.example.com/authorize", "app", listener.redirect_uri
        )
        self.answer: str | errors.UserError | None = None

    async def run(self) -> None:
        try:
            self.answer = await self.listener.code(self.asked)
        except errors.UserError as refusal:
            self.answer = refusal

    def back(self, code: str = "mine", *, state: str = "") -> str:
        return f"{self.listener.redirect_uri}?code={code}&state={state or self.asked.state}"


@pytest.fixture
async def attempt(nursery: trio.Nursery) -> AsyncIterator[Attempt]:
    async with authorization_code.listening() as listener:
        found = Attempt(listener)
        nursery.start_soon(found.run)
        yield found
        nursery.cancel_scope.cancel()


async def _until_answered(attempt: Attempt) -> str | errors.UserError:
    with trio.fail_after(10):
        while attempt.answer is None:
            await trio.lowlevel.checkpoint()
    return attempt.answer


async def test_login_page_redirects_with_cookie(attempt: Attempt) -> None:
    async with httpx.AsyncClient() as browser:
        page = await browser.get(attempt.listener.start_url)
        assert page.status_code == 303
        assert page.headers["location"] == attempt.asked.url
        (cookie,) = SimpleCookie(page.headers["set-cookie"]).values()
        assert cookie["httponly"] and cookie["samesite"] == "Lax"
        assert (await browser.get(attempt.back())).status_code == 200
    assert await _until_answered(attempt) == "mine"


async def test_browser_arguments_cannot_forge_response(attempt: Attempt) -> None:
    """Somebody who has read where the browser was opened knows no state, and the state is no use to him."""
    start = urlsplit(attempt.listener.start_url)
    assert attempt.asked.state not in start.query and "authorize" not in attempt.listener.start_url
    async with httpx.AsyncClient() as other:
        assert (await other.get(attempt.back("theirs"))).status_code == 400
        assert (
            await other.get(attempt.back("theirs"), headers={"cookie": "cmsfs_login=x"})
        ).status_code == 400
        page = await other.get(f"http://{start.netloc}/start?guessed")
        assert page.status_code == 400 and "set-cookie" not in page.headers
    assert attempt.answer is None


async def test_wrong_state_with_cookie_is_rejected(attempt: Attempt) -> None:
    async with httpx.AsyncClient() as browser:
        await browser.get(attempt.listener.start_url)
        assert (await browser.get(attempt.back("theirs", state="theirs"))).status_code == 400
        assert attempt.answer is None
        assert (await browser.get(attempt.back())).status_code == 200
    assert await _until_answered(attempt) == "mine"


async def test_dns_name_for_loopback_is_rejected(attempt: Attempt) -> None:
    async with httpx.AsyncClient() as browser:
        page = await browser.get(attempt.listener.start_url, headers={"host": "rebound.example"})
    assert page.status_code == 404


async def _fetched(url: str, *, user: int) -> int:
    """The answer to a program of this user."""
    parts = urlsplit(url)
    stream = await trio.open_tcp_stream(str(parts.hostname), parts.port or 0)
    os.fchown(stream.socket.fileno(), user, -1)
    async with stream:
        await stream.send_all(
            f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        )
        return int((await stream.receive_some()).split()[1])


@pytest.mark.skipif(os.getuid() != 0, reason="gives sockets to other users")
async def test_another_user_of_the_machine_gets_nothing(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await _fetched(attempt.listener.start_url, user=65534) == 403
    assert await _fetched(attempt.back("theirs"), user=65534) == 403
    # Seen by a user who is not root.
    monkeypatch.setattr(os, "getuid", lambda: 65534)
    assert await _fetched(attempt.listener.start_url, user=65534) == 303
    assert await _fetched(attempt.listener.start_url, user=65533) == 403
    assert attempt.answer is None


async def test_who_has_hung_up_is_nobody_of_ours(attempt: Attempt) -> None:
    """A socket that is closed already is root's for the kernel, and must not be taken for root's."""
    host, port = urlsplit(attempt.listener.redirect_uri).netloc.split(":")
    stream = await trio.open_tcp_stream(host, int(port))
    theirs = stream.socket.getsockname()
    assert loopback_peers.is_ours((host, int(port)), theirs)
    await stream.aclose()
    assert not loopback_peers.is_ours((host, int(port)), theirs)


async def test_access_that_is_denied_ends_the_log_in(attempt: Attempt) -> None:
    async with httpx.AsyncClient() as browser:
        await browser.get(attempt.listener.start_url)
        await browser.get(f"{attempt.listener.redirect_uri}?error=access_denied&state={attempt.asked.state}")
    refusal = await _until_answered(attempt)
    assert isinstance(refusal, errors.UserError) and "denied" in refusal.message


def test_the_address_has_what_the_service_needs() -> None:
    asked = authorization_code.Consent(
        "https://files.example.com/authorize", "app", "http://127.0.0.1:1/callback"
    )
    query = parse_qs(urlsplit(asked.url).query)
    assert query["state"] == [asked.state] and query["code_challenge_method"] == ["S256"]
    assert asked.verifier not in asked.url


@pytest.mark.parametrize(
    "said", ["code=theirs", "code=theirs&state=", "code=theirs&state=other", "error=access_denied"]
)
def test_response_with_wrong_state_is_rejected(said: str) -> None:
    asked = authorization_code.Consent(
        "https://files.example.com/authorize", "app", "http://127.0.0.1:1/callback"
    )
    assert asked.code_of(said) is None
    with pytest.raises(errors.UserError, match="does not belong"):
        asked.code_pasted(f"{asked.redirect_uri}?{said}")


async def test_a_redirection_without_any_state_is_not_believed(attempt: Attempt) -> None:
    async with httpx.AsyncClient() as browser:
        await browser.get(attempt.listener.start_url)
        page = await browser.get(f"{attempt.listener.redirect_uri}?code=theirs")
        assert page.status_code == 400
        assert (await browser.get(attempt.back())).status_code == 200
    assert await _until_answered(attempt) == "mine"
