"""`.by`: what is listed and counted, what names mean, and what moving an item into a value sets."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
import trio

from cmsfs import errors
from cmsfs.config.abilities import Ability
from cmsfs.models.content import metadata
from cmsfs.replica.nodes import ROOT
from cmsfs.service.storage.store import Store
from cmsfs.vfs.virtual import metadata_folders, value_names
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, fails
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

FIELDS = [
    {"type": "string", "key": "customer", "displayName": "Customer"},
    {"type": "float", "key": "sum", "displayName": "Sum"},
    {"type": "date", "key": "signed", "displayName": "Signed"},
    {"type": "enum", "key": "status", "displayName": "S", "options": [{"key": "open"}, {"key": "signed"}]},
    {
        "type": "multiSelect",
        "key": "parts",
        "displayName": "Parts",
        "options": [{"key": "A"}, {"key": "B"}, {"key": "C, D"}],
    },
]


@pytest.fixture
async def contracts(other: Remote, service: Store, user: int) -> dict[str, str]:
    """A template and three files with its metadata; the IDs of the files by their names."""
    await errno_probe.may_administer(service)
    sql = "UPDATE app SET scopes = scopes || ' manage_enterprise_properties'"
    await service.write(lambda conn: conn.execute(sql))
    wish = {"scope": "enterprise", "displayName": "Contract", "templateKey": "contract", "fields": FIELDS}
    await other.client.metadata.create_template(metadata.NewTemplate.model_validate(wish))
    folder = await other.folder("Legal")
    values: dict[str, dict[str, Any]] = {
        "a.txt": {
            "customer": "Harbour",
            "sum": 7,
            "status": "open",
            "parts": ["A", "C, D"],
            "signed": "2026-11-03T00:00:00Z",
        },
        "b.txt": {"customer": "Quay/East %", "sum": 2.5, "status": "open", "signed": "2026-02-01T00:00:00Z"},
        "c.txt": {"customer": "Harbour", "sum": 400, "status": "signed", "parts": ["B"]},
    }
    ids = {}
    for name, given in values.items():
        ids[name] = await other.file(name, name.encode(), folder)
        await other.client.metadata.put("file", ids[name], "contract", given)
    return ids


async def _ino(drive: Drive, path: str) -> int:
    ino = ROOT
    for name in path.split("/"):
        ino = (await drive.agents.shown.lookup(ino, name)).ino
    return ino


@pytest.fixture
def ls(drive: Drive) -> Callable[[str], Any]:
    """`await ls(path)`: the names in a folder, in their order."""
    shown = drive.agents.shown

    async def run(path: str) -> list[str]:
        fh = await shown.opendir(await _ino(drive, path))
        found: list[str] = []
        after = 0
        try:
            while lines := await shown.readdir(fh, after):
                found += [one.name for one in lines]
                after = lines[-1].cookie
        finally:
            shown.releasedir(fh)
        return found

    return run


async def _move(drive: Drive, old: str, into: str) -> None:
    above, _, name = old.rpartition("/")
    parent = await _ino(drive, above) if above else ROOT
    await drive.agents.shown.rename(parent, name, await _ino(drive, into), name, 0)


async def _values(other: Remote, file_id: str) -> dict[str, Any]:
    (found,) = await other.client.metadata.instances("file", file_id)
    return found.values


async def test_values_are_listed_counted_and_narrowed(drive: Drive, contracts, ls, network: Network):
    assert "contract" in await ls(".by")
    top = await ls(".by/contract")
    assert top == [
        *("customer=Harbour", "customer=Quay%2FEast %25", "sum=2.5", "sum=7", "sum=400", "signed=2026"),
        *("status=open", "status=signed", "parts=A", "parts=B", "parts=C, D", "a.txt", "b.txt", "c.txt"),
    ]
    asked = network.count("POST", "/metadata_queries/execute_read")
    # What every item has tells none apart, except that a year has months.
    assert await ls(".by/contract/status=open/signed=2026") == [
        *("customer=Harbour", "customer=Quay%2FEast %25", "sum=2.5", "sum=7"),
        *("signed=2026-02", "signed=2026-11", "parts=A", "parts=C, D", "a.txt", "b.txt"),
    ]
    assert await ls(".by/contract/signed=2026-11/customer=Harbour") == ["signed=2026-11-03", "a.txt"]
    shown = drive.agents.shown
    ino = await _ino(drive, ".by/contract/customer=Harbour")
    assert await shown.getxattr(ino, metadata_folders.TOTAL) == b"2"
    assert metadata_folders.TOTAL in await shown.listxattr(ino)
    link = await _ino(drive, ".by/contract/customer=Quay%2FEast %25/b.txt")
    assert await shown.readlink(link) == b"../../../Legal/b.txt"
    assert network.count("POST", "/metadata_queries/execute_read") == asked


NAMES = {
    "sum=2..10": ["a.txt", "b.txt"],
    "sum=..2.5": ["b.txt"],
    "sum=400.0": ["c.txt"],
    "customer=Quay%2FEast %25": ["b.txt"],
    "parts=C, D": ["a.txt"],
    "signed=2026-02..2026-10/status=open": ["b.txt"],
    "signed=2026-11-03": ["a.txt"],
    "customer=Nobody": [],
    "status=signed/parts=A": [],
}


async def test_names_mean_the_same_at_the_service_and_here(
    drive: Drive, contracts, ls, network: Network, monkeypatch
):
    monkeypatch.setattr("cmsfs.vfs.virtual.metadata_listings.REMEMBERED", 2)
    before = network.count("POST", "/metadata_queries/execute_read")
    for is_known in (False, True):
        if is_known:
            await ls(".by/contract")
            await ls(".by/contract/customer=drops what was read of single values")
        for path, found in NAMES.items():
            assert [one for one in await ls(f".by/contract/{path}") if "=" not in one] == found, path
    assert network.count("POST", "/metadata_queries/execute_read") == before + len(NAMES) + 1


@pytest.mark.parametrize(
    "path",
    [
        *(
            "nothing",
            "contract/price=3",
            "contract/status=lost",
            "contract/sum=big",
            "contract/signed=2026-13",
        ),
        *("contract/sum=9..1", "contract/.git", ".hidden", "contract/customer=%FF", "contract/d.txt"),
    ],
)
async def test_what_the_template_does_not_have_is_not_there(drive: Drive, contracts, path: str):
    with fails(errno.ENOENT):
        await _ino(drive, f".by/{path}")


async def test_moving_an_item_in_sets_values(drive: Drive, other: Remote, contracts, ls):
    assert "sum=12" not in await ls(".by/contract")
    await _move(drive, "Legal/b.txt", ".by/contract/customer=Harbour/sum=12/signed=2026-12-24/parts=B")
    values = await _values(other, contracts["b.txt"])
    assert values == {
        "customer": "Harbour",
        "sum": 12,
        "status": "open",
        "signed": "2026-12-24T00:00:00.000Z",
        "parts": ["B"],
    }
    # The item stays where it is, and is in its new folder at once.
    assert "b.txt" in await ls("Legal")
    assert "b.txt" in await ls(".by/contract/sum=12")
    # Out of one folder of values into another; of several options the others stay.
    await ls(".by/contract/parts=A")
    await _move(drive, ".by/contract/parts=A/a.txt", ".by/contract/status=signed/parts=B")
    assert (await _values(other, contracts["a.txt"]))["parts"] == ["C, D", "B"]
    assert (await _values(other, contracts["a.txt"]))["status"] == "signed"
    # An item that has none of the template's metadata yet, and is not uploaded yet.
    await drive.write("Legal/new.txt", b"new")
    await _move(drive, "Legal/new.txt", ".by/contract/status=open")
    await drive.sync()
    assert await _values(other, (await other.find("new.txt")).id) == {"status": "open"}


async def test_what_cannot_be_set_is_refused_with_a_line(
    drive: Drive, other: Remote, contracts, ls, expect_log: ExpectLog
):
    await ls("Legal")
    expect_log("a.txt cannot be moved into .by/contract/sum=1..9: 1..9 is a range")
    with fails(errno.EINVAL):
        await _move(drive, "Legal/a.txt", ".by/contract/sum=1..9")
    with fails(errno.EPERM):
        await _move(drive, "Legal/a.txt", ".by/contract")
    with fails(errno.EPERM):
        await drive.agents.shown.create(await _ino(drive, ".by/contract/sum=1"), "x", 0o644, os.O_WRONLY)
    with fails(errno.EPERM):
        await drive.agents.shown.mkdir(ROOT, ".by", 0o755)
    await other.client.web_links.create("https://example.com/", parent_id="0", name="Quay")
    await drive.poll()
    expect_log("Quay.url cannot be moved into .by/contract/sum=1: Operation not supported")
    with fails(errno.ENOTSUP):
        await _move(drive, "Quay.url", ".by/contract/sum=1")
    assert (await _values(other, contracts["a.txt"]))["sum"] == 7


async def test_many_items_and_values_are_cut_and_said(
    drive: Drive, other: Remote, contracts, ls, monkeypatch
):
    monkeypatch.setattr("cmsfs.vfs.virtual.metadata_listings.MAX_MATCHES", 2)
    monkeypatch.setattr(value_names, "MOST_VALUES", 1)
    assert await ls(".by/contract") == [
        "customer=Harbour",
        "sum=2.5",
        "signed=2026",
        "status=open",
        "parts=A",
        *("a.txt", "b.txt"),
    ]
    ino = await _ino(drive, ".by/contract")
    note = await drive.agents.shown.getxattr(ino, metadata_folders.PARTIAL)
    assert note.startswith(
        b"the first 2 items; there are more; 1 of 2 values of customer; 1 of 2 values of sum"
    )
    assert metadata_folders.TOTAL not in await drive.agents.shown.listxattr(ino)
    # A value that is not among them is asked for by itself.
    assert "c.txt" in await ls(".by/contract/status=signed")


async def test_offline_shows_what_was_read(drive: Drive, contracts, ls, network: Network, monkeypatch):
    before = await ls(".by/contract")
    monkeypatch.setattr("cmsfs.vfs.virtual.metadata_listings.FRESH_SECONDS", 0.0)
    network.is_down = True
    with pytest.raises((errors.Offline, OSError)):
        await ls(".by/contract")
    with trio.fail_after(60):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    assert await ls(".by/contract") == before
    ino = await _ino(drive, ".by/contract/status=open")
    note = await drive.agents.shown.getxattr(ino, metadata_folders.PARTIAL)
    assert note == b"as it was read last: the service cannot be reached"
    with fails(errno.ENETDOWN):
        await ls(".by/global.properties/x=1")


async def test_a_service_without_metadata_queries_has_no_folders(drive: Drive, contracts, ls):
    drive.agents.client.offers.lacking = frozenset({Ability.METADATA_QUERIES})
    with fails(errno.EOPNOTSUPP):
        await ls(".by")
    with fails(errno.EOPNOTSUPP):
        await _ino(drive, ".by/contract")


def test_odd_values_have_names_that_lead_back() -> None:
    field = metadata.Field.model_validate({"type": "string", "key": "k", "displayName": "K"})
    for word in ("", "a/b", "50%", "%2F", "a\nb", "é", "x=y", "..", "a (#0123abcd)x"):
        name = value_names.folder_name("k", word)
        assert "/" not in name
        found = value_names.of_name(name, {"k": field})
        assert found is not None
        assert (found.word, found.name) == (word, name)
    long = value_names.folder_name("k", "ü" * 300)
    assert len(long.encode()) <= 255
    assert value_names.is_hashed(long)
    assert long != value_names.folder_name("k", "ü" * 301)


def test_numbers_become_ranges_that_hold_each_once() -> None:
    field = metadata.Field.model_validate({"type": "float", "key": "n", "displayName": "N"})
    numbers = [float(one * one) for one in range(40)]
    words = value_names.words_of(field, numbers, None)
    assert list(words)[:2] == ["0..199", "200..399"]
    assert sum(words.values()) == 40
    for word, count in words.items():
        one = value_names.of_word(field, word)
        assert one is not None
        assert count == len([number for number in numbers if one.fits(number)])
