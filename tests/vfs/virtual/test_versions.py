"""How past versions are called."""

import pytest

from cmsfs.vfs.virtual.versions import PastVersion, version_names


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def _version(number: int, author: str = "Ann Example", second: int = 0) -> PastVersion:
    return PastVersion(str(number), "a" * 40, 3, (1_700_000_000 + second) * 10**9, author)


def test_version_name_has_time_and_author():
    assert [name for name, _ in version_names("report.odt", [_version(1)])] == [
        "2023-11-14 22.13.20 Ann Example.odt"
    ]
    assert [name for name, _ in version_names("README", [_version(1, "")])] == ["2023-11-14 22.13.20"]


def test_version_names_are_stable():
    before = version_names("a.txt", [_version(2), _version(1)])
    after = version_names("a.txt", [_version(3), _version(2), _version(1)])
    assert after[1:] == before
    assert len({name for name, _ in after}) == 3
    assert after[0][0].endswith("Ann Example (3).txt")


@pytest.mark.parametrize("author", ["A/B\nC", "x" * 300, "é" * 300])
def test_any_author_makes_a_legal_name(author: str):
    ((name, _),) = version_names("a.txt", [_version(1, author)])
    assert "/" not in name
    assert "\n" not in name
    assert len(name.encode()) <= 255
