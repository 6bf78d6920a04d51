"""The worker: what it may use, how it ends, and that nothing is left of it."""

import itertools
import os
import signal
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs.service.storage import derived_files
from cmsfs.service.worker import sandbox, worker, worker_client
from tests.support import sample_documents


def job(source: Path, target: Path) -> dict[str, str]:
    return derived_files.worker_job(derived_files.TEXT, source, target)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_crashed_worker_is_replaced(tmp_path, monkeypatch):
    good, endless = tmp_path / "good", tmp_path / "endless"
    good.write_bytes(sample_documents.pdf("heron"))
    os.mkfifo(endless)  # reading it ends never
    target = tmp_path / "made"
    async with worker_client.open_worker() as shop:
        await shop.run_job(job(good, target))
        assert target.read_text() == "heron"
        first = shop.pid
        assert first is not None
        async with trio.open_nursery() as nursery:

            async def hopeless() -> None:
                with pytest.raises(worker_client.WorkerFailed, match="signal 9"):
                    await shop.run_job(job(endless, target))

            nursery.start_soon(hopeless)
            await trio.testing.wait_all_tasks_blocked(0.05)
            os.kill(first, signal.SIGKILL)
        assert shop.pid is None
        # One that takes too long is ended.
        monkeypatch.setattr(worker_client, "_TIMEOUT", 0.2)
        with pytest.raises(worker_client.WorkerFailed):
            await shop.run_job(job(endless, target))
        monkeypatch.undo()
        await shop.run_job(job(good, target))
        assert shop.pid not in (None, first)


LAUGHS = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in itertools.pairwise("abcdefghij"))


def _glyphs(number: int) -> bytes:
    """A small PDF whose page says `x` so many times."""
    text = sample_documents.pdf("heron")
    stream = zlib.compress(b"BT /F1 1 Tf " + b"(x) Tj " * number + b"ET", 9)
    start, end = text.index(b"<< /Length"), text.index(b"endstream")
    head = b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(stream)
    return text[:start] + head + stream + b"\n" + text[end:]


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(
            lambda folder: sample_documents.sparse(folder), id="a sheet of 17 thousand million cells"
        ),
        pytest.param(
            lambda folder: sample_documents.docx("&j;", dtd=f'<!DOCTYPE x [<!ENTITY a "ha">{LAUGHS}]>'),
            id="a thousand million laughs",
        ),
        pytest.param(
            lambda folder: sample_documents.zipped(
                {
                    "mimetype": "application/vnd.oasis.opendocument.text",
                    "META-INF/manifest.xml": "<a/>",
                    "content.xml": "<a>" * 200_000 + "</a>" * 200_000,
                }
            ),
            id="elements in elements",
        ),
        pytest.param(
            lambda folder: sample_documents.pdf("x").replace(b"/Kids [4 ", b"/Kids [2 "), id="a circle"
        ),
        pytest.param(
            lambda folder: _glyphs(3_000_000), id="a page of millions of glyphs", marks=pytest.mark.long
        ),
    ],
)
async def test_hostile_document_costs_one_worker(tmp_path, hostile):
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(hostile(tmp_path))
    good.write_bytes(sample_documents.pdf("heron"))
    assert bad.stat().st_size < 100_000
    async with worker_client.open_worker() as shop:
        with trio.fail_after(worker.JOB_SECONDS + 10):
            with suppress(worker_client.WorkerFailed):
                await shop.run_job(job(bad, tmp_path / "made"))
                assert (tmp_path / "made").stat().st_size < 100
            await shop.run_job(job(good, tmp_path / "made"))
        assert (tmp_path / "made").read_text() == "heron"


async def test_worker_aborts_endless_document(tmp_path, monkeypatch):
    """Whatever it is doing, a system call or a library's C."""
    endless = tmp_path / "endless"
    os.mkfifo(endless)
    # The real one has 30 seconds.
    program = "from cmsfs.service.worker import worker; worker.JOB_SECONDS = 1; worker.main()"
    async with worker_client.open_worker() as shop:
        monkeypatch.setattr(worker_client, "COMMAND", [sys.executable, "-P", "-c", program])
        with (
            trio.fail_after(10),
            pytest.raises(worker_client.WorkerFailed, match=f"signal {int(signal.SIGALRM)}"),
        ):
            await shop.run_job(job(endless, tmp_path / "made"))


async def test_a_worker_has_limits(tmp_path):
    """It is no more than a process with so much memory, time and output, and without our secrets."""
    os.environ["CMSFS_SECRET_OF_A_TEST"] = "x"
    good = tmp_path / "good"
    good.write_bytes(sample_documents.pdf("heron"))
    async with worker_client.open_worker() as shop:
        await shop.run_job(job(good, tmp_path / "made"))
        place = Path("/proc") / str(shop.pid)
        limits = {
            line[:26].strip(): line[26:46].strip() for line in (place / "limits").read_text().splitlines()
        }
        assert limits["Max address space"] == str(2**30)
        assert limits["Max core file size"] == "0"
        assert limits["Max open files"] == "64"
        assert b"SECRET" not in (place / "environ").read_bytes()
        assert (place / "cwd").readlink() == Path("/")
    del os.environ["CMSFS_SECRET_OF_A_TEST"]


@pytest.mark.skipif(not sandbox.version(), reason="this kernel has no Landlock")
async def test_worker_has_no_files_or_network(tmp_path, monkeypatch):
    """Whatever a document makes of the process that reads it."""
    blobs, made, secret = tmp_path / "blobs", tmp_path / "made", tmp_path / "service.db"
    blobs.mkdir()
    made.mkdir()
    secret.write_text("secret")
    (blobs / "good").write_bytes(sample_documents.pdf("heron"))
    program = (
        "import pathlib, socket\n"
        "from cmsfs.service.worker import extraction, worker\n"
        "def words(path):\n"
        "    told = []\n"
        f"    for name in ({str(secret)!r}, '/proc/1/environ', {str(Path.home() / '.profile')!r}):\n"
        "        try:\n"
        "            pathlib.Path(name).read_bytes()\n"
        "            told.append(f'read {name}')\n"
        "        except (PermissionError, FileNotFoundError):\n"
        "            pass\n"
        f"    for name in ({str(tmp_path / 'new')!r}, {str(blobs / 'new')!r}, '/tmp/new'):\n"
        "        try:\n"
        "            pathlib.Path(name).write_bytes(b'x')\n"
        "            told.append(f'wrote {name}')\n"
        "        except PermissionError:\n"
        "            pass\n"
        "    with socket.socket() as sock:\n"
        "        try:\n"
        "            sock.bind(('127.0.0.1', 0))\n"
        "            told.append('bound')\n"
        "        except PermissionError:\n"
        "            pass\n"
        "    return ', '.join(told) or real(path)\n"
        "real, extraction.extract_text = extraction.extract_text, words\n"
        "worker.main()"
    )
    monkeypatch.setattr(worker_client, "COMMAND", [sys.executable, "-P", "-c", program])
    async with worker_client.open_worker(blobs, made) as shop:
        await shop.run_job(job(blobs / "good", made / "text"))
    assert (made / "text").read_text() == ("heron" if sandbox.version() >= 4 else "bound")


async def test_when_the_service_stops_the_worker_is_gone(tmp_path):
    good = tmp_path / "good"
    good.write_bytes(sample_documents.pdf("heron"))
    endless = tmp_path / "endless"
    os.mkfifo(endless)
    async with worker_client.open_worker() as shop:
        await shop.run_job(job(good, tmp_path / "made"))
        pid = shop.pid
        with trio.move_on_after(0.1):
            await shop.run_job(job(endless, tmp_path / "made"))
        assert pid is not None and not is_alive(pid)
        await shop.run_job(job(good, tmp_path / "made"))
        pid = shop.pid
    assert pid is not None and not is_alive(pid)


async def test_worker_ends_with_killed_service(tmp_path):
    endless = tmp_path / "endless"
    os.mkfifo(endless)
    program = (
        "import sys, trio\n"
        "from cmsfs.service.worker import worker_client\n"
        "async def main():\n"
        "    async with worker_client.open_worker() as shop:\n"
        "        async with trio.open_nursery() as nursery:\n"
        "            job = {'what': 'text', 'source': sys.argv[1], 'target': sys.argv[1] + '.made'}\n"
        "            nursery.start_soon(shop.run_job, job)\n"
        "            while shop.pid is None:\n"
        "                await trio.sleep(0.01)\n"
        "            await trio.sleep(0.3)\n"
        "            print(shop.pid, flush=True)\n"
        "            await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    service = await trio.lowlevel.open_process(
        [sys.executable, "-c", program, str(endless)], stdout=subprocess.PIPE
    )
    assert service.stdout is not None
    pid = int(await service.stdout.receive_some())
    assert is_alive(pid)
    service.kill()
    await service.wait()
    await service.stdout.aclose()
    with trio.fail_after(10):
        while is_alive(pid):  # noqa: ASYNC110  (it is no child of ours)
            await trio.sleep(0.02)
