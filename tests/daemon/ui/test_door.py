"""Who gets to see the page of the drive, and for how long it is there."""

import os
import socket
from pathlib import Path

import httpx
import pytest
import trio

from cmsfs import errors
from daemon.ui import peers, server
from tests.daemon.ui.conftest import Reader, Visit
from tests.support.daemon_drive import Drive
from tests.support.log_watch import ExpectLog


async def test_a_key_is_good_once(drive: Drive) -> None:
    assert not drive.agents.page.is_open  # nothing listens before somebody asks
    url = (await drive.agents.open_page("", "")).url
    assert drive.agents.page.is_open
    async with httpx.AsyncClient() as client:
        assert (await client.get(url)).status_code == 200
        assert (await client.get(url)).status_code == 403
        assert (await client.get(f"{url}x")).status_code == 403
    with pytest.raises(errors.UserError, match="overview"):
        await drive.agents.open_page("nothing", "")


async def test_a_page_wants_the_cookie_and_the_place(reader: Reader) -> None:
    base = str(reader.client.base_url).rstrip("/")
    (cookie,) = reader.client.cookies.jar
    assert cookie.path == reader.at
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"
    async with httpx.AsyncClient(base_url=base) as other:
        assert (await other.get(f"{reader.at}/")).status_code == 403
        assert (await other.get(f"{reader.at}/live")).status_code == 403
        known = {"Cookie": f"{cookie.name}={cookie.value}"}
        assert (await other.get(f"/at/{'0' * 32}/", headers=known)).status_code == 403
        assert (await other.get(f"{reader.at}/", headers=known)).status_code == 200


async def test_another_name_of_this_machine_is_no_address(reader: Reader) -> None:
    for host in ("localhost:80", "evil.example", ""):
        answer = await reader.client.get(f"{reader.at}/", headers={"Host": host})
        assert answer.status_code in (400, 421), host


async def test_a_form_of_another_page_changes_nothing(reader: Reader, drive: Drive) -> None:
    for origin in ("http://127.0.0.1:1", "https://evil.example", "null", None):
        headers = {} if origin is None else {"Origin": origin}
        answer = await reader.client.post(f"{reader.at}/pause", data={"seconds": "60"}, headers=headers)
        assert answer.status_code == 421, origin
        assert not drive.agents.health.is_paused
    await reader.post("pause", seconds="60")
    assert drive.agents.health.is_paused


async def test_another_users_program_is_turned_away(
    drive: Drive, tmp_path: Path, nursery: trio.Nursery, expect_log: ExpectLog
) -> None:
    expect_log("another user's program asked for the page")
    table = tmp_path / "tcp"
    page = server.PageServer(drive.agents, nursery, drive.agents.history, table=table)
    url = await page.open("", "")
    port = httpx.URL(url).port
    assert port is not None
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        ends = [f"0100007F:{one:04X}" for one in (client.getsockname()[1], port)]
        table.write_text(f"head\n 0: {ends[0]} {ends[1]} 01 0:0 00:0 0 {os.geteuid() + 1} 0 1\n")
        client.settimeout(20)
        client.connect(("127.0.0.1", port))
        client.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        # Closed with the request unread: nothing came back.
        answer = await trio.to_thread.run_sync(_rest, client)
    assert answer == b""


def _rest(client: socket.socket) -> bytes:
    try:
        return client.recv(1000)
    except ConnectionResetError:
        return b""


def test_the_owner_of_a_connection_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        ends = client.getsockname(), listener.getsockname()
        assert peers.owner(*ends) == os.geteuid()
        assert peers.owner(ends[0], ("127.0.0.1", 1)) is None


async def test_it_goes_away_unseen(drive: Drive, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.01)
    reader = await visit()
    monkeypatch.setattr(server, "UNSEEN_SECONDS", 0.0)
    with trio.fail_after(10):
        await drive.agents.page.closed.wait()
    with pytest.raises(httpx.ConnectError):
        await reader.client.get(f"{reader.at}/")
    monkeypatch.undo()
    assert "Overview" in await (await visit()).get()
