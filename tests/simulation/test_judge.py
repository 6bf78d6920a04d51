"""What the service has, as a drive must show it."""

from typing import Any

import pytest

from tests.simulation import judge, ledger

ROOT, BASE = 1, 2
FOLDER, FILE, LINK = 0, 1, 2


def _item(number: int, parent: int, kind: int, name: str) -> dict[str, Any]:
    return {"id": number, "parent": parent, "kind": kind, "name": name, "sha1": "x" if kind == FILE else None}


def test_a_web_link_makes_way_for_a_file_beside_it() -> None:
    rows = [_item(3, ROOT, LINK, "page"), _item(4, ROOT, FILE, "page.url")]
    assert judge.paths_below(rows, ROOT) == {"page (link 3).url": "", "page.url": ""}


def test_a_web_link_that_is_called_so_gets_no_second_suffix() -> None:
    rows = [_item(3, ROOT, FOLDER, "a"), _item(4, 3, LINK, "page.url"), _item(5, ROOT, LINK, "page.url")]
    assert judge.paths_below(rows, ROOT) == {"a": "", "a/page.url": "", "page.url": ""}
    rows.append(_item(6, 3, FILE, "page.url"))
    assert judge.paths_below(rows, ROOT).keys() == {"a", "a/page (link 4).url", "a/page.url", "page.url"}


def test_a_file_outside_of_the_drive_s_folder_is_not_beside_it() -> None:
    rows = [
        _item(BASE, ROOT, FOLDER, "base"),
        _item(3, BASE, LINK, "page"),
        _item(4, ROOT, FILE, "page.url"),
    ]
    assert judge.paths_below(rows, BASE) == {"page.url": ""}
    assert judge.paths_below(rows, ROOT) == {"base": "", "base/page.url": "", "page.url": ""}


def test_what_was_read_unverified_is_not_foreign_and_may_hide_any_content() -> None:
    found = ledger.Ledger()
    found.register(b"old")
    found.record_read(b"damaged", "one: a.txt", is_verified=False)
    found.record_derived(b"new", b"damaged")
    assert found.foreign == []
    assert found.is_derived(ledger.sha1(b"new"), [ledger.ANY])
    assert found.is_derived(ledger.sha1(b"new"), found.unverified)
    found.record_read(b"of nobody", "one: a.txt")
    assert len(found.foreign) == len(found.unverified) == 1


@pytest.mark.parametrize("has_seen", [True, False])
def test_an_older_version_is_newer_than_what_it_was_moved_over(has_seen: bool) -> None:
    found = ledger.Ledger()
    first, second, third = b"first", b"second", b"first, and more"
    found.wrote(first, over=None)
    found.wrote(second, over=ledger.sha1(first))
    found.record_moved(first)
    if has_seen:
        found.record_moved_over(first, second)
    found.wrote(third, over=ledger.sha1(first))
    versions = [ledger.sha1(one) for one in (first, second, third)]
    assert found.unseen([versions]) == ([] if has_seen else [(versions[1], versions[2])])


@pytest.mark.parametrize(
    ("size", "at", "durable", "modified", "torn"),
    [
        (20_000, 9.0, False, False, True),
        (20_000, 9.0, True, False, False),
        (20_000, 1.0, False, False, False),
        (20, 9.0, False, False, False),
        (20, 9.0, False, True, True),
    ],
)
def test_a_power_cut_may_tear_what_was_only_in_a_file(
    size: int, at: float, durable: bool, modified: bool, torn: bool
) -> None:
    found, data = ledger.Ledger(), bytes(size)
    found.register(data)
    if modified:
        found.record_derived(data, b"before")
    found.wrote(data, over=ledger.ANY)
    found.promised[ledger.sha1(data)] = ("one", at, durable)
    found.power_cut("two", 10.0)
    assert not found.has_torn_writes
    found.power_cut("one", 10.0)
    assert found.has_torn_writes == torn
