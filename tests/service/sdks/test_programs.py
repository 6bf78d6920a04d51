"""Programs that keep files with the public API: rclone, and by it restic and duplicity.

A test is skipped where its program is not installed.
"""

import json
import shutil

import pytest

from tests.support import clients_table

pytestmark = pytest.mark.long


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture
def tree(tmp_path):
    """Some files, and where they may come back."""
    made = tmp_path / "tree"
    (made / "inner").mkdir(parents=True)
    (made / "a.txt").write_text("one", encoding="utf-8")
    (made / "inner" / "Größe: 3.bin").write_bytes(bytes(range(256)) * 500)
    return made


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@needs("rclone")
async def test_rclone(at_service, tree, tmp_path, exchanges):
    await at_service("rclone", "copy", str(tree), "rival:copied")
    await at_service("rclone", "check", str(tree), "rival:copied", "--download")
    listed = json.loads(await at_service("rclone", "lsjson", "-R", "rival:copied"))
    assert {one["Path"] for one in listed} == {"a.txt", "inner", "inner/Größe: 3.bin"}
    (tree / "a.txt").write_text("another", encoding="utf-8")
    await at_service("rclone", "sync", str(tree), "rival:copied")
    await at_service("rclone", "moveto", "rival:copied/a.txt", "rival:copied/inner/b.txt")
    await at_service("rclone", "copy", "rival:copied", str(tmp_path / "back"))
    assert (tmp_path / "back" / "inner" / "b.txt").read_text(encoding="utf-8") == "another"
    assert json.loads(await at_service("rclone", "about", "rival:", "--json"))["used"] > 0
    assert (await at_service("rclone", "link", "rival:copied/inner/b.txt")).startswith("https://")
    await at_service("rclone", "purge", "rival:copied")
    assert "copied" not in await at_service("rclone", "lsf", "rival:")
    clients_table.hold("rclone", exchanges)


@needs("rclone", "restic")
async def test_restic(at_service, tree, tmp_path, exchanges):
    repository = ("restic", "-r", "rclone:rival:backups")
    await at_service(*repository, "init")
    await at_service(*repository, "backup", str(tree))
    (tree / "a.txt").write_text("another", encoding="utf-8")
    await at_service(*repository, "backup", str(tree))
    assert len(json.loads(await at_service(*repository, "snapshots", "--json"))) == 2
    await at_service(*repository, "forget", "--keep-last", "1", "--prune")
    await at_service(*repository, "check", "--read-data")
    await at_service(*repository, "restore", "latest", "--target", str(tmp_path / "back"))
    assert contents(tmp_path / "back" / tree.relative_to("/")) == contents(tree)
    clients_table.hold("restic", exchanges)


@needs("rclone", "duplicity")
async def test_duplicity(at_service, tree, tmp_path, exchanges):
    place = "rclone://rival:duplicity"
    await at_service("duplicity", "full", "--no-encryption", str(tree), place)
    (tree / "a.txt").write_text("another", encoding="utf-8")
    await at_service("duplicity", "incremental", "--no-encryption", str(tree), place)
    assert "Incremental" in await at_service("duplicity", "collection-status", "--no-encryption", place)
    await at_service("duplicity", "restore", "--no-encryption", place, str(tmp_path / "back"))
    assert contents(tmp_path / "back") == contents(tree)
    # Later versions of rclone look at the file again.
    clients_table.hold("duplicity", exchanges, newer=frozenset({"files"}))
