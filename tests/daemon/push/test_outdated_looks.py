"""An operation that finds nothing left to do looks once more as it ends: the item may be gone by then."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from cmsfs.sqlite import Connection
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

LINK = b"[InternetShortcut]\r\nURL=https://example.com/\r\n"


@pytest.fixture
def deleted_before(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Have the item of this name deleted there, and that heard of, just before this transaction."""
    write = drive.db.write

    def prepare(where: str, name: str) -> None:
        async def overtaken(txn: Callable[[Connection], Any], **options: Any) -> Any:
            if where in txn.__code__.co_qualname:
                monkeypatch.undo()
                item = await other.find(name)
                await other.client.items.delete(item.type, item.id)
                await drive.poll()
            return await write(txn, **options)

        monkeypatch.setattr(drive.db, "write", overtaken)

    return prepare


async def test_a_file_written_as_it_was_and_deleted_there_is_made_anew(
    drive: Drive, other: Remote, deleted_before: Callable[[str, str], None]
) -> None:
    await drive.write("f", b"same")
    await drive.sync()
    deleted_before("_finish_unchanged", "f")
    await drive.write("f", b"same")
    await drive.sync()
    assert await other.paths() == ["f"]
    assert await other.read("f") == b"same"


async def test_a_web_link_written_as_it_was_and_deleted_there_is_made_anew(
    drive: Drive, other: Remote, deleted_before: Callable[[str, str], None]
) -> None:
    await drive.write("l.url", LINK)
    await drive.sync()
    before = (await other.find("l")).id
    deleted_before("_unchanged", "l")
    await drive.write("l.url", LINK)
    await drive.sync()
    after = await other.find("l")
    assert after.type == "web_link"
    assert after.id != before


async def test_a_folder_found_made_and_deleted_there_is_made_anew_for_what_is_in_it(
    drive: Drive, other: Remote, network: Network, deleted_before: Callable[[str, str], None]
) -> None:
    await drive.names()
    arrived, go = network.gate("POST", "/folders", before=True)
    network.lose_answer("POST", "/folders")
    await drive.mkdir("d")
    with trio.fail_after(5):
        await arrived.wait()
    await drive.write("d/f", b"mine")
    await drive.rename("d", "e")
    deleted_before("mkdir.<locals>", "d")
    go.set()
    await drive.sync()
    assert await other.paths() == ["e/", "e/f"]
    assert await other.read("f") == b"mine"
