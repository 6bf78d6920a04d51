"""Documents are found by their words once the worker has read them, and nothing is left of it."""

import logging
import os

import pytest
import trio
import trio.testing

from cmsfs.service.renditions import indexing
from cmsfs.service.server import serve
from cmsfs.service.storage import store
from cmsfs.service.worker import worker_client
from tests.support import sample_documents


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)


async def all_indexed(opened: store.Store) -> None:
    """Wait until the backlog is empty."""
    with trio.fail_after(30):
        while True:
            written = opened.written
            if not opened.read("SELECT 1 FROM unindexed UNION ALL SELECT 1 FROM rendition WHERE state = 0"):
                return
            await written.wait()


async def content(api, word):
    return await api.names(word, content_types="file_content")


async def test_documents_are_found_by_their_words(api, service, nursery, tmp_path):
    await api.upload("a.pdf", sample_documents.pdf("heron"))
    await api.upload("b.docx", sample_documents.docx("heron and egret"))
    await api.upload("c.xlsx", sample_documents.xlsx(tmp_path, ["heron"]))
    await api.upload("d.pptx", sample_documents.slides("heron", "", "", ""))
    await api.upload("e.odt", sample_documents.odt("heron", ""))
    await api.upload("no name to tell what it is", sample_documents.ods("heron"))
    await api.upload("g.odp", sample_documents.odp("heron"))
    await api.upload("h.rtf", rb"{\rtf1 heron}")
    await api.upload("i.html", b"<html><p class=nothing>heron</p></html>")
    await api.upload("j.txt", "größe heron".encode("utf-16"))
    await api.upload("k.txt", b"a plain heron")
    await api.upload("l.bin", bytes(range(256)))
    assert await content(api, "heron") == {"k.txt"}
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    names = await content(api, "heron")
    assert {name[0] for name in names} == set("abcdeghijkn")
    assert await content(api, "nothing") == set()
    assert await content(api, "größe") == {"j.txt"}
    assert await api.names("heron", content_types="name") == set()


async def test_long_text_is_indexed_in_steps(api, service, nursery):
    await api.upload("long.txt", b"first " + b"x " * 20_000 + b"last")
    assert await content(api, "first") == {"long.txt"}
    assert await content(api, "last") == set()
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    assert await content(api, "first") == await content(api, "last") == {"long.txt"}


async def test_new_version_is_indexed_again(api, service, nursery):
    nursery.start_soon(indexing.run, service)
    file = await api.upload("a.pdf", sample_documents.pdf("heron"))
    await all_indexed(service)
    await api.version(file["id"], sample_documents.pdf("egret"))
    assert await content(api, "heron") == set()
    await all_indexed(service)
    assert await content(api, "egret") == {"a.pdf"}
    assert await content(api, "heron") == set()
    # What was, is found again when it is made current; it was read before.
    old = (await api.ask("GET", f"/files/{file['id']}/versions"))["entries"][0]
    body = {"id": old["id"], "type": "file_version"}
    await api.ask("POST", f"/files/{file['id']}/versions/current", json=body, expect=201)
    await all_indexed(service)
    assert await content(api, "heron") == {"a.pdf"}
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    assert await content(api, "heron") == set()
    assert service.read("SELECT * FROM document WHERE file_content LIKE '%heron%'") == []


async def test_purged_file_leaves_index_queue(api, service):
    file = await api.upload("a.pdf", sample_documents.pdf("heron"))
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    assert service.read("SELECT * FROM unindexed") == []


async def test_the_same_content_is_read_once(api, service, nursery, monkeypatch):
    jobs = []
    do = worker_client.WorkerClient.run_job

    async def counted(self, job):
        jobs.append(job["what"])
        await do(self, job)

    monkeypatch.setattr(worker_client.WorkerClient, "run_job", counted)
    for name in ("a.pdf", "b.pdf"):
        await api.upload(name, sample_documents.pdf("heron"))
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    await api.upload("c.pdf", sample_documents.pdf("heron"))
    await all_indexed(service)
    assert jobs == ["text"]
    assert await content(api, "heron") == {"a.pdf", "b.pdf", "c.pdf"}


async def test_copy_shares_extracted_text(api, service, nursery):
    file = await api.upload("a.pdf", sample_documents.pdf("heron"))
    await api.version(file["id"], sample_documents.pdf("egret"))
    old = (await api.ask("GET", f"/files/{file['id']}/versions"))["entries"][0]

    async def copy(name, **more):
        body = {"name": name, "parent": {"id": "0"}} | more
        await api.ask("POST", f"/files/{file['id']}/copy", json=body, expect=201)

    await copy("before.pdf")
    await copy("old.pdf", version=old["id"])
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    await copy("after.pdf")
    assert service.read("SELECT * FROM unindexed") == []
    assert await content(api, "egret") == {"a.pdf", "before.pdf", "after.pdf"}
    assert await content(api, "heron") == {"old.pdf"}


async def test_damaged_document_is_found_by_name(api, service, nursery, expect_log, caplog):
    expect_log(r"file \d+ is found by its name alone: ")
    file = await api.upload("broken heron.pdf", sample_documents.pdf("heron")[:150])
    await api.upload("good.pdf", sample_documents.pdf("heron"))
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    assert await content(api, "heron") == {"good.pdf"}
    assert await api.names("heron") == {"good.pdf", "broken heron.pdf"}
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(lines) == 1 and lines[0].startswith(f"file {file['id']} is found by its name alone: ")
    # And it is not tried again.
    assert service.read("SELECT state FROM rendition WHERE state = 2")


async def test_a_restart_goes_on_where_the_service_stopped(root, fill, as_user):
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "uwe@example.com")
        await api.upload("a.pdf", sample_documents.pdf("heron"))
    async with store.open_store(root) as opened, trio.open_nursery() as nursery:
        api = await as_user(opened, "uwe@example.com")
        assert opened.read("SELECT * FROM unindexed")
        nursery.start_soon(indexing.run, opened)
        await all_indexed(opened)
        assert await content(api, "heron") == {"a.pdf"}
        nursery.cancel_scope.cancel()
    async with store.open_store(root) as opened:
        assert opened.read("SELECT state FROM rendition")[0]["state"] == 1


async def test_orphaned_renditions_are_swept(root, fill, as_user):
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "uwe@example.com")
        file = await api.upload("a.pdf", sample_documents.pdf("heron"))
        await api.upload("b.pdf", sample_documents.pdf("egret"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(indexing.run, opened)
            await all_indexed(opened)
            nursery.cancel_scope.cancel()
        await api.ask("DELETE", f"/files/{file['id']}", expect=204)
        await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
        made = list((root / "renditions").glob("*/*"))
        assert len(made) == 2
        (made[0].parent / f"{made[0].stem}.new").touch()
    async with store.open_store(root) as opened:
        assert len(opened.read("SELECT * FROM rendition")) == 1
        assert len(list((root / "renditions").glob("*/*"))) == 1


async def test_lost_rendition_is_made_again(api, service, nursery):
    await api.upload("a.pdf", sample_documents.pdf("heron"))
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    next(service.renditions.root.glob("*/*")).unlink()
    await api.upload("b.pdf", sample_documents.pdf("heron"))
    await all_indexed(service)
    assert await content(api, "heron") == {"a.pdf", "b.pdf"}


async def test_only_one_process_works_the_backlog_off(root, fill, monkeypatch):
    monkeypatch.setattr(indexing, "POLL_SECONDS", 0.01)
    asked = []

    async def work(opened, shop):
        asked.append(opened)
        here.set()
        await trio.sleep_forever()

    monkeypatch.setattr(indexing, "_work", work)
    async with store.open_store(root) as one, store.open_store(root) as two, trio.open_nursery() as second:
        async with trio.open_nursery() as first:
            here = trio.Event()
            await first.start(indexing.run, one)
            with trio.fail_after(5):
                await here.wait()
            here = trio.Event()
            await second.start(indexing.run, two)
            with trio.move_on_after(0.05):
                await here.wait()
            assert asked == [one]
            first.cancel_scope.cancel()
        with trio.fail_after(5):
            await here.wait()
        assert asked == [one, two]
        second.cancel_scope.cancel()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_extraction_does_not_block_requests(api, service, nursery):
    file = await api.upload("a.pdf", sample_documents.pdf("heron"))
    blob = service.blobs.path(file["sha1"])
    blob.unlink()
    os.mkfifo(blob)  # reading it ends never
    nursery.start_soon(indexing.run, service)
    await trio.testing.wait_all_tasks_blocked(0.2)
    with trio.fail_after(5):
        await api.upload("b.txt", b"an egret")
        assert await content(api, "egret") == {"b.txt"}
        await api.upload("c.pdf", sample_documents.pdf("egret"))
    assert len(service.read("SELECT * FROM unindexed")) == 2


async def test_service_leaves_no_worker_behind(root, fill, as_user, monkeypatch):
    started = []
    start = worker_client.WorkerClient._start

    async def noted(self):
        process = await start(self)
        started.append(process.pid)
        return process

    monkeypatch.setattr(worker_client.WorkerClient, "_start", noted)
    async with store.open_store(root) as opened, trio.open_nursery() as nursery:
        await fill(opened)
        await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
        api = await as_user(opened, "uwe@example.com")
        await api.upload("a.pdf", sample_documents.pdf("heron"))
        await all_indexed(opened)
        assert await content(api, "heron") == {"a.pdf"}
        assert [is_alive(pid) for pid in started] == [True]
        nursery.cancel_scope.cancel()
    assert [is_alive(pid) for pid in started] == [False]


async def test_a_worker_without_work_is_ended(api, service, nursery, monkeypatch):
    monkeypatch.setattr(indexing, "POLL_SECONDS", 0.3)
    rested = trio.Event()
    stop = worker_client.WorkerClient.stop

    async def noted(self):
        if self.pid is not None:
            rested.set()
        await stop(self)

    monkeypatch.setattr(worker_client.WorkerClient, "stop", noted)
    await api.upload("a.pdf", sample_documents.pdf("heron"))
    nursery.start_soon(indexing.run, service)
    with trio.fail_after(10):
        await rested.wait()
    assert await content(api, "heron") == {"a.pdf"}


async def test_internal_failure_is_logged(api, service, nursery, expect_log, monkeypatch):
    expect_log("indexing failed")
    monkeypatch.setattr(indexing, "_RETRY_SECONDS", 0.01)
    do = worker_client.WorkerClient.run_job
    failures = [OSError("no space")]

    async def sometimes(self, job):
        if failures:
            raise failures.pop()
        await do(self, job)

    monkeypatch.setattr(worker_client.WorkerClient, "run_job", sometimes)
    await api.upload("a.pdf", sample_documents.pdf("heron"))
    nursery.start_soon(indexing.run, service)
    await all_indexed(service)
    assert await content(api, "heron") == {"a.pdf"}


@pytest.mark.embedded  # its plan, in its planner's words
async def test_backlog_query_uses_an_index(service):
    for sql, args in ((indexing.NEXT_IN_BACKLOG, ()), (indexing.SAME_CONTENT, ("", indexing.BATCH))):
        steps = service.read(f"EXPLAIN QUERY PLAN {sql}", *args)
        assert not [step["detail"] for step in steps if step["detail"].startswith("SCAN item")]


@pytest.mark.long  # the worker is started twice
async def test_documents_are_read_when_their_library_comes(api, service, tmp_path, monkeypatch, expect_log):
    """A drive's package comes without them; `cmsfs-server` brings them."""
    expect_log("found by its name alone: what reads it is not installed .*cmsfs-server")
    (tmp_path / "docx.py").write_text("raise ImportError")
    await api.upload("b.docx", sample_documents.docx("heron and egret"))
    with monkeypatch.context() as without:
        without.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        async with trio.open_nursery() as first:
            first.start_soon(indexing.run, service)
            await all_indexed(service)
            first.cancel_scope.cancel()
    assert await content(api, "heron") == set()
    async with trio.open_nursery() as second:
        second.start_soon(indexing.run, service)
        with trio.fail_after(30):
            while True:
                written = service.written
                if await content(api, "heron"):
                    break
                await written.wait()
        second.cancel_scope.cancel()
