"""Bytes that are changed on their way, in either direction: found out, sent or fetched again, and never
stored nor shown."""

import random

import pytest

from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

DATA = random.Random(1).randbytes(300_000)


def large() -> bytes:
    return random.Random(2).randbytes(51_000_000)


@pytest.mark.parametrize("version", [False, True], ids=["new file", "new version"])
async def test_an_upload_that_arrives_damaged_is_sent_again(
    drive: Drive, other: Remote, network: Network, version: bool
) -> None:
    if version:
        await drive.write("f", b"one")
        await drive.sync()
    sent = network.count("POST", "/content")
    network.damage("POST", "/content")
    await drive.write("f", DATA)
    await drive.sync()
    assert network._damaged == []
    assert network.count("POST", "/content") - sent == 2
    assert await other.read("f") == DATA
    assert await other.versions((await other.find("f")).id) == 1 + version
    assert drive.ops() == []


async def test_only_damaged_part_is_resent(drive: Drive, other: Remote, network: Network) -> None:
    data = large()
    network.damage("PUT", "/upload_sessions/")
    network.damage("PUT", "/upload_sessions/")
    await drive.write("f", data)
    await drive.sync()
    assert network._damaged == []
    assert network.count("PUT", "/upload_sessions/") == -(-len(data) // (8 * 1024 * 1024)) + 2
    assert network.count("POST", "/commit") == 1
    assert await other.read("f") == data


async def test_a_download_that_arrives_damaged_is_never_shown(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    await other.file("f", DATA)
    await drive.poll()
    network.damage_answer("GET", "/content")
    try:
        assert await drive.read("f") == DATA
    except OSError:
        pass  # told, and fetched anew by the next read
    assert network._damaged_answers == []
    assert await drive.read("f") == DATA


async def test_damaged_bytes_under_a_change_are_never_sent(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    await other.file("f", DATA)
    await drive.poll()
    network.damage_answer("GET", "/content")
    opened = await drive.fs.open(await drive.ino("f"), 1)
    await drive.fs.write(opened.fh, 1000, b"changed")
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert network._damaged_answers == []
    assert await other.read("f") == DATA[:1000] + b"changed" + DATA[1007:]
