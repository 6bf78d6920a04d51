"""What is asked about single items: once, for a while, and never because attributes are listed."""

import pytest

from cmsfs.models.content import items
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import PREFIX, attempt, listed, told, value
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


async def test_item_fields_cost_one_request(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"12345")
    await other.client.shared_links.share("file", number)
    await drive.names()
    asked = drive.agents.health.requests
    assert (await value(drive, "f", "owner")).startswith("Ada Tester <")
    assert await listed(drive, "f") == ["owner"]
    assert asked["facts"] == 0
    assert (await value(drive, "f", "created_by")).startswith("Ada Tester <")
    assert "download" in (await value(drive, "f", "permissions")).split(",")
    assert (await value(drive, "f", "shared_link")).startswith("http")
    assert await value(drive, "f", "shared_link.access") == "open"
    assert await value(drive, "f", "watermark") == "0"
    assert await value(drive, "f", "nonsense") == "ENODATA"
    assert asked["facts"] == 1
    assert await listed(drive, "f") == ["owner", "shared_link"]


async def test_details_are_cached_while_etag_is_unchanged(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"12345")
    await drive.names()
    assert await value(drive, "f", "modified_by.id") == str(other.user)
    assert await value(drive, "f", "version_number") == "1"
    await other.write(number, b"67890")
    await drive.poll()
    assert await value(drive, "f", "version_number") == "2"
    assert drive.agents.health.requests["facts"] == 2


async def test_event_invalidates_item_details(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"12345")
    await drive.names()
    assert await value(drive, "f", "shared_link") == "ENODATA"
    await other.client.shared_links.share("file", number)
    assert await value(drive, "f", "shared_link") == "ENODATA"
    await drive.poll()
    assert (await value(drive, "f", "shared_link")).startswith("http")


async def test_an_answer_holds_for_a_while_only(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"12345")
    await drive.names()
    assert await value(drive, "f", "shared_link") == "ENODATA"
    await other.client.shared_links.share("file", number)
    await drive.db.write(lambda conn: conn.execute("UPDATE fact SET learned_at = learned_at - 301"))
    assert (await value(drive, "f", "shared_link")).startswith("http")


async def test_offline_details_serve_cached_only(drive: Drive, other: Remote, network: Network) -> None:
    await other.file("known", b"1")
    await other.file("new", b"2")
    await drive.names()
    before = await value(drive, "known", "permissions")
    network.is_down = True
    assert await attempt(drive.read("new")) != "ok"  # this is how the drive hears of it
    await drive.db.write(lambda conn: conn.execute("UPDATE fact SET learned_at = 0"))
    assert await value(drive, "known", "permissions") == before
    assert await value(drive, "new", "permissions") == "ENETDOWN"
    assert (await value(drive, "new", "owner")).startswith("Ada")
    assert await told(drive, "new", "metadata.global.properties.k", "v") == "ENETDOWN"


async def test_local_file_has_local_attributes_only(drive: Drive) -> None:
    await drive.write(".~lock.f#", b"x")
    assert await value(drive, ".~lock.f#", "sync") == "local"
    assert await value(drive, ".~lock.f#", "cached") == "1"
    for name in ("id", "owner", "permissions", "metadata", "hold", "retention"):
        assert await value(drive, ".~lock.f#", name) == "ENODATA"
    ino = await drive.ino(".~lock.f#")
    await drive.fs.setxattr(ino, "user.xdg.comment", b"mine")
    assert await drive.fs.listxattr(ino) == ["user.xdg.comment"]
    assert drive.agents.health.requests["facts"] == 0


async def test_cached_attribute_counts_bytes(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x" * 300_000)
    await drive.names()
    assert await value(drive, "f", "cached") == "0"
    await drive.read("f")
    assert await value(drive, "f", "cached") == "300000"
    assert await value(drive, "", "cached") == "ENODATA"


# ---- description and tags ----------------------------------------------------------------------


async def test_description_and_tags_are_set_at_once_and_sent(drive: Drive, other: Remote) -> None:
    await other.file("f", b"1")
    await drive.names()
    ino = await drive.ino("f")
    assert await told(drive, "f", "description", "what it is") == "ok"
    await drive.fs.setxattr(ino, "user.xdg.tags", b"red, round,red")
    assert await value(drive, "f", "tags") == "red,round"
    assert await drive.fs.getxattr(ino, "user.xdg.comment") == b"what it is"
    assert {"description", "tags", "user.xdg.comment", "user.xdg.tags"} <= set(await listed(drive, "f"))
    await drive.sync()
    found = await other.details("f")
    assert (found.description, found.tags) == ("what it is", ["red", "round"])
    assert await value(drive, "f", "description") == "what it is"
    assert await told(drive, "f", "description", None) == "ok"
    await drive.fs.removexattr(ino, "user.xdg.tags")
    assert await value(drive, "f", "description") == "ENODATA"
    await drive.sync()
    found = await other.details("f")
    assert (found.description, found.tags) == ("", [])
    assert await told(drive, "f", "description", None) == "ENODATA"
    assert drive.ops() == []


async def test_description_and_tags_wait_for_upload(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    network.is_down = True
    await drive.write("f", b"new")
    assert await told(drive, "f", "description", "said of it") == "ok"
    assert await told(drive, "f", "tags", "red\nblue") == "ok"
    network.is_down = False
    await drive.sync()
    item = await other.details("f")
    assert (item.description, item.tags) == ("said of it", ["red", "blue"])


async def test_description_survives_a_save(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"old")
    await drive.sync()
    assert await told(drive, "f", "tags", "kept") == "ok"
    await drive.write("f.new", b"newer")
    await drive.rename("f.new", "f")
    assert await value(drive, "f", "tags") == "kept"
    await drive.sync()
    item = await other.details("f")
    assert item.tags == ["kept"]
    assert await other.versions(item.id) == 2


async def test_tags_of_local_file_upload_with_it(drive: Drive, other: Remote) -> None:
    await drive.write("f.part", b"download")
    await drive.fs.setxattr(await drive.ino("f.part"), "user.xdg.tags", b"red")
    await drive.rename("f.part", "f")
    await drive.sync()
    assert (await other.details("f")).tags == ["red"]
    assert await value(drive, "f", "tags") == "red"


async def test_folders_and_web_links_are_described_too(drive: Drive, other: Remote) -> None:
    folder = await other.folder("d")
    link = await other.client.web_links.create("https://example.com/", "0", name="link")
    await drive.names()
    assert await told(drive, "d", "tags", "a,b") == "ok"
    assert await told(drive, "link.url", "description", "where") == "ok"
    ino = await drive.ino("link.url")
    assert await drive.fs.getxattr(ino, "user.xdg.origin.url") == b"https://example.com/"
    # A link has no tags at the service: they stay a program's own.
    await drive.fs.setxattr(ino, "user.xdg.tags", b"here")
    await drive.sync()
    shown = await other.client.items.details("folder", folder)
    assert isinstance(shown, items.Folder)
    assert shown.tags == ["a", "b"]
    assert (await other.client.items.details("web_link", link.id)).description == "where"
    assert await drive.fs.getxattr(ino, "user.xdg.tags") == b"here"


@pytest.mark.parametrize(
    ("name", "given"), [("description", b"x" * 257), ("description", b"\xff"), ("tags", b"t" * 9)]
)
async def test_what_cannot_be_said_is_refused_at_once(
    drive: Drive, expect_log: ExpectLog, name: str, given: bytes
) -> None:
    await drive.write("f", b"1")
    if name == "tags":
        given = ",".join(f"t{number}" for number in range(101)).encode()
    expect_log("at most|UTF-8")
    assert await attempt(drive.fs.setxattr(await drive.ino("f"), PREFIX + name, given)) == "EINVAL"


async def test_what_the_drive_tells_cannot_be_set(drive: Drive, other: Remote) -> None:
    await other.file("f", b"1")
    await drive.names()
    for name in ("id", "etag", "permissions", "hold.id", "cached", "nonsense", "metadata"):
        assert await told(drive, "f", name, "1") == "ENOTSUP"
        assert await told(drive, "f", name, None) == "ENOTSUP"
    # What is listed is in copies, too: `rsync -X` sets and removes it.
    for name in ("owner", "sync", "shared_link"):
        before = await value(drive, "f", name)
        assert await told(drive, "f", name, "nobody") == "ok"
        assert await told(drive, "f", name, None) == "ok"
        assert await value(drive, "f", name) == before
