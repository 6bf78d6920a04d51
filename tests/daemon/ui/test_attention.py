"""What waits for a person, and what the page does about it."""

import re
from collections.abc import Callable

import pytest

from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from tests.daemon.ui.conftest import Reader, Visit
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog

MINE, THEIRS = b"one\nmine\nthree\n", b"one\nTHEIRS <b>\nthree\n"

COPY = re.compile(r"notes \(conflicted copy of .*\)\.txt")


@pytest.fixture
async def copy(drive: Drive, other: Remote) -> str:
    """The name of a conflict copy beside `notes.txt`."""
    await drive.write("notes.txt", b"one\ntwo\nthree\n")
    await drive.sync()
    await other.write((await other.find("notes.txt")).id, b"one\nTHEIRS <b>\nthree\n")
    await drive.write("notes.txt", b"one\nmine\nthree\n")
    await drive.sync()
    await drive.poll()
    (found,) = [name for name in await drive.names() if COPY.fullmatch(name)]
    return found


async def test_both_versions_side_by_side(reader: Reader, visit: Visit, copy: str, drive: Drive) -> None:
    assert "/notes.txt</a>" in await reader.get("attention")
    text = await reader.get("conflict", path=f"/{copy}")
    assert "<del>THEIRS &lt;b&gt;</del>" in text
    assert "<ins>mine</ins>" in text
    assert "Ada Tester" in text
    # The menu of a file manager names either of them.
    assert "<ins>mine</ins>" in await reader.get("conflict", path="/notes.txt")
    assert "There is no conflict about" in await reader.get("conflict", path="/")


def choice(text: str, keep: str) -> dict[str, str]:
    """The form that a button is on."""
    for form in re.findall(r"<form.*?</form>", text, re.DOTALL):
        if f'value="{keep}"' in form:
            return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    raise AssertionError(keep)


@pytest.mark.parametrize(
    ("keep", "files"),
    [
        ("mine", {"notes.txt": MINE}),
        pytest.param("theirs", {"notes.txt": THEIRS}, marks=pytest.mark.long),
        pytest.param("both", {"notes.txt": THEIRS, "notes (my version).txt": MINE}, marks=pytest.mark.long),
    ],
)
async def test_the_choice_is_kept(
    reader: Reader, drive: Drive, other: Remote, copy: str, keep: str, files: dict[str, bytes]
) -> None:
    before = (await other.find("notes.txt")).id
    form = choice(await reader.get("conflict", path=f"/{copy}"), keep)
    drive.changes.clear()
    await reader.post("settle", **form)
    assert copy in [change.name for change in drive.changes]  # the kernel hears of it
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == sorted(files)
    for name, data in files.items():
        assert await other.read(name) == await drive.read(name) == data
    assert (await other.find("notes.txt")).id == before
    assert "Nothing needs your attention." in await reader.get("attention")


async def test_what_has_changed_is_looked_at_again(
    reader: Reader, drive: Drive, other: Remote, copy: str
) -> None:
    form = choice(await reader.get("conflict", path=f"/{copy}"), "mine")
    await other.write((await other.find("notes.txt")).id, b"newer")
    await drive.poll()
    assert "has changed meanwhile" in await reader.post("settle", **form)
    assert await other.read("notes.txt") == b"newer"
    assert copy in await drive.names()


@pytest.mark.long
async def test_a_picture_is_shown_and_a_document_is_not(reader: Reader, drive: Drive) -> None:
    await drive.write("dot.png", b"\x89PNG\r\n\x1a\n...")
    await drive.write("page.svg", b"<svg onload='alert(1)'/>")
    found = await reader.client.get(f"{reader.at}/picture", params={"path": "/dot.png"})
    assert found.headers["content-type"] == "image/png"
    assert "sandbox" in found.headers["content-security-policy"]
    found = await reader.client.get(f"{reader.at}/picture", params={"path": "/page.svg"})
    assert found.status_code == 404


async def test_what_is_refused_is_retried_or_discarded(
    reader: Reader, drive: Drive, other: Remote, service: Store, expect_log: ExpectLog
) -> None:
    expect_log("the service rejected a change")

    def limit(most: int) -> Callable[[Connection], object]:
        return lambda conn: conn.execute("UPDATE account SET space_amount = ?", (most,))

    await service.write(limit(10))
    await drive.write("large & wide", b"x" * 100)
    await drive.write("other", b"y" * 100)
    await drive.agents.push.drained()
    text = await reader.get("attention")
    assert "Refused by the service" in text
    assert "/large &amp; wide" in text
    await service.write(limit(10_000))
    assert "is being tried again" in await reader.post("retry", path="/large & wide", back="attention")
    await drive.agents.push.drained()
    assert await other.read("large & wide") == b"x" * 100
    assert "The change of /other was discarded. Its bytes are kept in " in await reader.post(
        "discard", path="/other", back="attention"
    )
    assert "No change of /other was rejected" in await reader.post("discard", path="/other", back="attention")
    assert "Nothing needs your attention." in await reader.get("attention")
