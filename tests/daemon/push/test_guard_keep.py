"""Contents that an undone mass change would lose, saved."""

from pathlib import Path

import pytest

from cmsfs import durability
from daemon.push import guard_keep


async def test_what_is_saved_is_on_the_disk_with_all_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()

    def sync(path: Path) -> None:
        assert path.exists()
        synced.add(path)

    monkeypatch.setattr(durability, "sync", sync)
    recovered = tmp_path / "recovered"
    recovered.mkdir()
    these = []
    for number in range(20):
        source = tmp_path / f"source {number}"
        source.write_text(f"what {number} says")
        these.append(guard_keep.of_file(f"/a/b {number % 3}/c/file {number}", source))
    top = await guard_keep.save_all(these, recovered)
    assert top is not None
    assert top.parent == recovered
    for number in range(20):
        assert (top / f"a/b {number % 3}/c/file {number}").read_text() == f"what {number} says"
    assert synced == {recovered, top, *top.rglob("*")}


async def test_nothing_to_save_leaves_no_folder(tmp_path: Path) -> None:
    assert await guard_keep.save_all([], tmp_path) is None
    assert list(tmp_path.iterdir()) == []
