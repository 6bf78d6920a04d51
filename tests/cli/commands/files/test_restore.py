"""restore: a folder as it was, brought back and taken back again, against the embedded service."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs import config
from cmsfs.auth import connect
from cmsfs.cli import main
from cmsfs.cli.support import progress
from cmsfs.client import remote_paths
from cmsfs.client.content import items as item_requests
from cmsfs.client.content import uploads as client_uploads
from cmsfs.client.history import moments
from cmsfs.client.session import Client
from cmsfs.models.base import Reference
from cmsfs.models.content import uploads

pytestmark = pytest.mark.usefixtures("sample")


def _now() -> str:
    return datetime.now().astimezone().isoformat()


def _put(folder: Path, remote: str, files: dict[str, bytes]) -> None:
    top = folder / "tree"
    for name, data in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert main.run(["put", str(top), remote]) == 0


async def _tree(client: Client, number: str, above: str = "") -> dict[str, str]:
    found = {}
    async for item in client.folders.items(number):
        path = f"{above}/{item.name}"
        found[path] = getattr(item, "sha1", None) or item.type
        if item.type == "folder":
            found |= await _tree(client, item.id, path)
    return found


def _on_service(remote: str, change: Any = None) -> Any:
    """What is below a folder, with the digest of each file; or what `change` does there."""

    async def work() -> Any:
        settings = config.load(None)
        async with connect.open_backend(settings) as client:
            paths = remote_paths.RemotePaths(client, settings)
            if change is not None:
                return await change(client, paths)
            return await _tree(client, (await paths.get_folder(remote)).id)

    return trio.run(work)


def _files(count: int) -> dict[str, bytes]:
    return {f"part {n % 3}/report {n}.txt": f"report {n}\n".encode() * 20 for n in range(count)}


def _encrypt(suffix: str, count: int) -> Any:
    """What such a script does: some are rewritten in place, some renamed as well, of some a copy is made and
    the original deleted; a note is left in each folder."""

    async def change(client: Client, paths: remote_paths.RemotePaths) -> int:
        top = await paths.get_folder("/Projects/tree")
        number = 0
        async for folder in client.folders.items(top.id):
            async for item in client.folders.items(folder.id):
                data = os.urandom(64)
                way = number % 3
                number += 1
                if way < 2:
                    await _write(client, item.id, data)
                if way == 1:
                    await client.items.update("file", item.id, name=f"{item.name}{suffix}")
                if way == 2:
                    await _make(client, f"{item.name}{suffix}", folder.id, data)
                    await client.items.delete("file", item.id)
            await _make(client, "READ ME.txt", folder.id, b"pay")
        assert number == count
        return number

    return change


async def _make(client: Client, name: str, folder: str, data: bytes) -> None:
    attributes = uploads.UploadAttributes(name=name, parent=Reference(id=folder))
    source = client_uploads.BytesSource(data)
    await client.uploads.new_file(attributes, source, sha1=hashlib.sha1(data).hexdigest())


async def _write(client: Client, number: str, data: bytes) -> None:
    source = client_uploads.BytesSource(data)
    await client.uploads.new_version(number, source, sha1=hashlib.sha1(data).hexdigest())


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main.run(["restore", "--json", *arguments]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def _story(capsys: pytest.CaptureFixture[str], tmp_path: Path, count: int) -> None:
    _put(tmp_path, "/Projects", _files(count))
    before = _on_service("/Projects/tree")
    assert sum(one != "folder" for one in before.values()) == count
    moment = _now()
    _on_service("", _encrypt(".locked", count))
    after = _on_service("/Projects/tree")
    assert not set(before.values()) - {"folder"} & set(after.values())
    plan = _json(capsys, "/Projects/tree", "--as-of", moment, "--dry-run")
    assert plan["unknown"] == []
    assert _on_service("/Projects/tree") == after, "a preview changed something"
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert main.run(["restore", "--undo", "--yes"]) == 0
    assert _on_service("/Projects/tree") == after
    assert main.run(["restore", "--undo", "--yes"]) == 1


def test_an_encrypted_folder_comes_back_and_goes_again(capsys, tmp_path):
    _story(capsys, tmp_path, 9)


@pytest.mark.long
def test_ten_thousand_encrypted_files_come_back(capsys, tmp_path):
    _story(capsys, tmp_path, 10_000)


def test_moves_swaps_and_a_deleted_tree_come_back(capsys, tmp_path):
    _put(tmp_path, "/Projects", {"a/one": b"1", "a/two": b"2", "b/c/three": b"3", "b/four": b"4"})
    before = _on_service("/Projects/tree")
    moment = _now()

    async def spoil(client: Client, paths: remote_paths.RemotePaths) -> None:
        one, two = await paths.get("/Projects/tree/a/one"), await paths.get("/Projects/tree/a/two")
        a, b = await paths.get_folder("/Projects/tree/a"), await paths.get_folder("/Projects/tree/b")
        await client.items.update("file", one.id, name="between")
        await client.items.update("file", two.id, name="one")
        await client.items.update("file", one.id, name="two")
        new = await client.folders.create("new", a.id)
        await client.items.update("file", two.id, parent_id=new.id)
        four = await paths.get("/Projects/tree/b/four")
        await client.items.delete("file", four.id)
        await client.items.delete("folder", b.id, recursive=True)
        await _make(client, "b", (await paths.get_folder("/Projects/tree")).id, b"in the way")

    _on_service("", spoil)
    after = _on_service("/Projects/tree")
    assert after != before
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert hashlib.sha1(b"4").hexdigest() in before.values()
    assert main.run(["restore", "--undo", "--yes"]) == 0
    assert _on_service("/Projects/tree") == after


def test_a_folder_that_was_deleted_itself_comes_back_also_where_another_has_its_name(capsys, tmp_path):
    _put(tmp_path, "/Projects", {"a/one": b"1", "a/two": b"2", "three": b"3"})
    before = _on_service("/Projects/tree")
    moment = _now()

    async def spoil(client: Client, paths: remote_paths.RemotePaths) -> None:
        tree = await paths.get_folder("/Projects/tree")
        await client.items.delete("file", (await paths.get("/Projects/tree/a/one")).id)
        await client.items.delete("folder", tree.id, recursive=True)

    async def replace(client: Client, paths: remote_paths.RemotePaths) -> None:
        new = await client.folders.create("Tree", (await paths.get_folder("/Projects")).id)
        await _make(client, "new", new.id, b"4")

    _on_service("", spoil)
    seen = _json(capsys, "/Projects/tree", "--as-of", moment, "--dry-run")
    assert [one["action"] for one in seen["steps"]] == ["restore"]
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert main.run(["restore", "--undo", "--yes"]) == 0
    assert "/tree" not in _on_service("/Projects")
    _on_service("", replace)
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert main.run(["restore", "--undo", "--yes"]) == 0
    assert list(_on_service("/Projects/Tree")) == ["/new"]


def test_a_folder_that_was_renamed_itself_comes_back(capsys, tmp_path):
    _put(tmp_path, "/Projects", {"one": b"1"})
    moment = _now()

    async def spoil(client: Client, paths: remote_paths.RemotePaths) -> None:
        tree = await paths.get_folder("/Projects/tree")
        await client.items.update("folder", tree.id, name="elsewhere")

    _on_service("", spoil)
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert list(_on_service("/Projects/tree")) == ["/one"]


def test_a_folder_that_was_moved_and_then_deleted_comes_back_to_where_it_was(capsys, tmp_path):
    """The service restores it into the folder that it was deleted from."""
    _put(tmp_path, "/Projects", {"a/one": b"1", "two": b"2"})
    before = _on_service("/Projects/tree")
    moment = _now()

    async def spoil(client: Client, paths: remote_paths.RemotePaths) -> None:
        tree = await paths.get_folder("/Projects/tree")
        reports = (await paths.get_folder("/Reports")).id
        await client.items.update("folder", tree.id, name="elsewhere", parent_id=reports)
        await client.items.delete("folder", tree.id, recursive=True)

    reports = _on_service("/Reports")
    _on_service("", spoil)
    after = _on_service("/Projects")
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert _on_service("/Reports") == reports
    assert main.run(["restore", "--undo", "--yes"]) == 0
    assert (_on_service("/Projects"), _on_service("/Reports")) == (after, reports)


def test_a_chain_and_a_circle_of_renames_take_a_request_each(capsys, tmp_path, monkeypatch):
    count = 30
    _put(tmp_path, "/Projects", {f"{n:02}": str(n).encode() for n in range(count)})
    before = _on_service("/Projects/tree")
    moment = _now()

    async def spoil(client: Client, paths: remote_paths.RemotePaths) -> None:
        tree = (await paths.get_folder("/Projects/tree")).id
        ids = {item.name: item.id async for item in client.folders.items(tree)}
        # Each takes the name of the next; the last ten go around.
        await client.items.update("file", ids["29"], name="between")
        for n in reversed(range(count - 1)):
            if n == count - 11:
                await client.items.update("file", ids["19"], name="free")
            else:
                await client.items.update("file", ids[f"{n:02}"], name=f"{n + 1:02}")
        await client.items.update("file", ids["29"], name="20")

    _on_service("", spoil)
    sent = []
    update = item_requests.ItemsApi.update

    async def counted(self: Any, kind: Any, number: str, **change: Any) -> Any:
        sent.append(number)
        return await update(self, kind, number, **change)

    monkeypatch.setattr(item_requests.ItemsApi, "update", counted)
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert len(sent) == count + 1


def test_a_restore_that_was_interrupted_and_resumed_is_undone_whole(capsys, tmp_path, monkeypatch):
    _put(tmp_path, "/Projects", _files(9))
    before = _on_service("/Projects/tree")
    moment = _now()
    _on_service("", _encrypt(".locked", 9))
    after = _on_service("/Projects/tree")

    class Interrupted(Exception):
        """As Ctrl-C."""

    @contextlib.contextmanager
    def counted(_title: str, _total: int) -> Iterator[Callable[[int], None]]:
        def bar(done: int) -> None:
            if done == 5:
                raise Interrupted

        yield bar

    with monkeypatch.context() as patch:
        patch.setattr(progress, "counted", counted)
        main.run(["restore", "/Projects/tree", "--as-of", moment, "--yes"])
    capsys.readouterr()
    assert _on_service("/Projects/tree") not in (before, after)
    _json(capsys, "/Projects/tree", "--as-of", moment, "--yes")
    assert _on_service("/Projects/tree") == before
    assert main.run(["restore", "--undo", "--yes"]) == 0
    assert _on_service("/Projects/tree") == after


def test_the_preview_tells_all_paths_how_many_and_how_to_undo(capsys, tmp_path):
    _put(
        tmp_path,
        "/Projects",
        {"ä b/one": b"1", "ä b/two": b"2", "ä b/three": b"3", "four": b"4", "five": b"5"},
    )
    moment = _now()

    async def spoil(client: Client, paths: remote_paths.RemotePaths) -> None:
        inside, tree = await paths.get_folder("/Projects/tree/ä b"), await paths.get_folder("/Projects/tree")
        await client.items.update("file", (await paths.get("/Projects/tree/ä b/one")).id, name="renamed")
        await client.items.delete("file", (await paths.get("/Projects/tree/ä b/two")).id)
        await _write(client, (await paths.get("/Projects/tree/ä b/three")).id, b"changed")
        projects = (await paths.get_folder("/Projects")).id
        await client.items.update("file", (await paths.get("/Projects/tree/four")).id, parent_id=projects)
        await client.items.update("file", (await paths.get("/Welcome.md")).id, parent_id=inside.id)
        new = await client.folders.create("new", tree.id)
        await _make(client, "inside", new.id, b"6")

    _on_service("", spoil)
    capsys.readouterr()
    assert main.run(["restore", "/Projects/tree", "--as-of", moment, "--dry-run"]) == 0
    out, told = capsys.readouterr()
    lines = [re.split("  +", line) for line in out.splitlines()]
    assert sorted(lines[:-1]) == sorted(
        [
            ["from the trash", "/Projects/tree/ä b/two"],
            ["contents", "/Projects/tree/ä b/three", lines[1][2]],
            ["name and place", "/Projects/tree/ä b/one", "now /Projects/tree/ä b/renamed"],
            ["name and place", "/Projects/tree/four", "now in another folder"],
            ["name and place", "Welcome.md", "now /Projects/tree/ä b/Welcome.md; back to where it was then"],
        ]
    )
    assert lines[-1] == ["to the trash", "/Projects/tree/new", "new since then, with what is in it"]
    assert re.fullmatch(r"as saved at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", lines[1][2])
    assert told == (
        "6 changes: 1 from the trash, 1 contents, 3 name and place, 1 to the trash.\n"
        "Nothing was changed; `cmsfs restore --undo` could take all of this back.\n"
    )


def test_a_time_before_there_was_such_a_folder_is_refused_instead_of_emptying_it(capsys, tmp_path):
    _put(tmp_path, "/Projects", {"one": b"1"})
    before = _on_service("/")
    for folder in ("/Projects/tree", "/"):
        capsys.readouterr()
        assert main.run(["restore", folder, "--as-of", "1999-12-31", "--yes"]) == 1
        told = capsys.readouterr().err
        assert f"{folder} was not there at that time; it was made at 20" in told
    assert main.run(["restore", "/Projects/never", "--as-of", "1s", "--yes"]) == 1
    told = capsys.readouterr().err
    assert (
        "There is no /Projects/never on the service, and none that was there at that time is known." in told
    )
    assert _on_service("/") == before


def test_the_shell_completes_times(capsys, monkeypatch):
    monkeypatch.setenv("_CMSFS_COMPLETE", "bash_complete")

    def completed(word: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", f"cmsfs restore /Projects --as-of {word}")
        monkeypatch.setenv("COMP_CWORD", "4")
        main.run([])
        return [line.partition(",")[2] for line in capsys.readouterr().out.splitlines()]

    assert completed("y") == ["yesterday"]
    assert completed("2h") == ["2h"]
    (hour,) = completed(f"{datetime.now():%Y-%m}")
    assert moments.parse(hour) <= datetime.now().astimezone()


def test_nothing_is_changed_without_a_time_or_a_yes(capsys, monkeypatch):
    before = _on_service("/Projects")
    assert main.run(["restore", "/Projects"]) == 2
    assert main.run(["restore", "/Projects", "--as-of", "2999-01-01"]) == 2
    assert main.run(["restore", "/Projects", "--as-of", "soon"]) == 2
    assert main.run(["restore", "--undo", "--as-of", "1h"]) == 2
    assert _on_service("/Projects") == before
