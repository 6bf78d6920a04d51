"""The first page, and what keeps it up to date."""

import httpx
import pytest
import trio

from daemon.ui import live
from tests.daemon.ui.conftest import Reader, following
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def test_the_first_page_tells_the_state_and_pauses(
    reader: Reader, drive: Drive, tmp_path: object
) -> None:
    text = await reader.get()
    assert "Up to date" in text
    assert f"{tmp_path}/mnt" in text
    assert "Nothing is being transferred." in text
    assert "Paused. Only what a program waits for" in await reader.post("pause")
    text = await reader.get()
    assert "Paused. Only what" not in text
    assert "Resume</button>" in text
    assert "Sync resumed." in await reader.post("resume")
    assert not drive.agents.health.is_paused


async def test_a_transfer_is_followed(
    reader: Reader, drive: Drive, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    arrived, go = network.gate("POST", "/files/content")
    async with following(reader) as events:
        assert (await events.next())["state"] == "Up to date"
        await drive.write("<large> & co", b"y" * 100_000)
        with trio.fail_after(20):
            await arrived.wait()
            while not (now := await events.next())["transfers"]:
                pass
        (transfer,) = now["transfers"]
        assert (now["state"], transfer["way"], transfer["path"]) == ("Syncing", "up", "/<large> & co")
        assert transfer["done"].endswith("of 100.0 kB")
        assert "&lt;large&gt; &amp; co" in await reader.get()
        go.set()
        with trio.fail_after(20):
            while (now := await events.next())["state"] != "Up to date":
                pass
    assert now["transfers"] == []


@pytest.mark.long
async def test_a_download_is_shown(
    reader: Reader, drive: Drive, other: Remote, network: Network, nursery: trio.Nursery
) -> None:
    await other.file("film", b"z" * 200_000)
    await drive.names()
    arrived, go = network.gate("GET", "/content", before=True)
    nursery.start_soon(drive.read, "film")
    with trio.fail_after(20):
        await arrived.wait()
    text = await reader.get()
    assert "Downloading" in text
    assert "/film" in text
    go.set()


async def test_rate_and_time_left(autojump_clock: object) -> None:
    pace = live.TransferPace(0)
    await trio.sleep(1)
    pace.note(1000)
    assert pace.rate == 1000
    await trio.sleep(1)
    pace.note(1000)
    assert pace.rate == 600


async def test_pages_are_bound_to_files_of_ours(reader: Reader) -> None:
    answer = await reader.client.get(f"{reader.at}/")
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert "<style" not in answer.text
    for name in ("page.css", "page.js"):
        found = await reader.client.get(f"/static/{name}")
        assert found.status_code == 200
        assert "http" not in found.text
    assert (await reader.client.get("/static/../page.css")).status_code == httpx.codes.NOT_FOUND
