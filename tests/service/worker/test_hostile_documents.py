"""Contents that are made to cost: each costs the service nothing, and the worker a bounded processor time."""

import os
import resource
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from cmsfs.service.storage import derived_files
from cmsfs.service.worker import worker, worker_client
from tests.support import sample_documents

MIB = 1024 * 1024


def _odt(content: str) -> bytes:
    return sample_documents.zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "META-INF/manifest.xml": "<a/>",
            "content.xml": content,
        }
    )


def _many_parts() -> bytes:
    return sample_documents.zipped({"word/document.xml": "<a/>"} | {f"{one}.xml": "" for one in range(5000)})


def _compressed_pdf(stream: bytes) -> bytes:
    text = sample_documents.pdf("x")
    start, end = text.index(b"<< /Length"), text.index(b"endstream")
    packed = zlib.compress(stream, 9)
    head = b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(packed)
    return text[:start] + head + packed + b"\n" + text[end:]


_SPACES = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text><text:p>'
    '<text:s text:c="999999999"/></text:p></office:text></office:body></office:document-content>'
)
_LAUGH = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 1000 + '"><!ENTITY c "' + "&b;" * 1000 + '">]>'

ATTACKS: dict[str, Callable[[], bytes]] = {
    "comments before nothing": lambda: b"<!---->" * 40 + b"x",
    "comments before HTML": lambda: b"<!-- -->" * (MIB // 8) + b"<html>",
    "a declaration without end": lambda: b"<?xml " * (MIB // 6),
    "spaces": lambda: b" " * MIB + b"x",
    "comments without end": lambda: b"<html>" + b"<!--" * (MIB // 4),
    "elements in elements": lambda: b"<html>" + b"<div>x" * (MIB // 6),
    "tables in tables": lambda: b"<html>" + b"<table><tr><td>x" * (MIB // 16),
    "attributes": lambda: b"<html><p " + b"a=b " * (MIB // 4),
    "names that end nowhere": lambda: b"<html>" + b"</a>" * (MIB // 4),
    "entities": lambda: b"<html>" + b"&amp;" * (MIB // 5),
    "scripts in templates": lambda: b"<html>" + b"<template><script>" * (MIB // 18),
    "links that begin": lambda: b"{\\rtf1 " + b'{\\field{\\*\\fldinst{HYPERLINK "' * 20_000,
    "links that nearly end": lambda: b"{\\rtf1 " + b'{\\field{\\*\\fldinst{HYPERLINK "a"}}{ x' * 20_000,
    "fonts without a set": lambda: b"{\\rtf1{\\fonttbl " + b"\\f1" * (MIB // 3),
    "fonts without a name": lambda: b"{\\rtf1{\\fonttbl " + b"\\f1\\fcharset1" * (MIB // 13),
    "a font's number": lambda: b"{\\rtf1{\\fonttbl \\f" + b"1" * MIB,
    "braces": lambda: b"{\\rtf1 " + b"{" * MIB,
    "hexadecimals": lambda: b"{\\rtf1 " + b"\\'e9" * (MIB // 4),
    "a picture's length": lambda: b"{\\rtf1 {\\pict\\bin" + b"9" * MIB,
    "marks of no text": lambda: b"\xff\xfe" + b"\x00\xd8" * (MIB // 2),
    "bytes of no encoding": lambda: b"\xe9" * MIB,
    "objects without end": lambda: b"%PDF-1.7\n" + b"1 0 obj " * (MIB // 8),
    "pages of themselves": lambda: sample_documents.pdf("x").replace(b"/Kids [4 ", b"/Kids [2 "),
    "a page's stream of zeros": lambda: _compressed_pdf(bytes(64 * MIB)),
    "a page of states": lambda: _compressed_pdf(b"q " * (8 * MIB)),
    "laughs": lambda: sample_documents.docx("&c;", dtd=_LAUGH),
    "paragraphs in paragraphs": lambda: sample_documents.docx("<w:p>" * 5000 + "</w:p>" * 5000),
    "parts": _many_parts,
    "a text's elements in elements": lambda: _odt("<a>" * 200_000 + "</a>" * 200_000),
    "spaces by number": lambda: _odt(_SPACES),
    "a part of zeros": lambda: sample_documents.zipped({"word/document.xml": bytes(32 * MIB)}),
    "a table that is none": lambda: sample_documents.zipped({"xl/workbook.xml": "<workbook/>"}),
}


def _processor_seconds(pid: int) -> float:
    """What our children have computed: a living one, and those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = used.ru_utime + used.ru_stime
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ended
    user, system = stat.rpartition(")")[2].split()[11:13]
    return ended + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def test_every_attack_costs_a_bounded_processor_time(tmp_path):
    """Half of what the worker gives a job at most, so that none needs to be killed."""
    cost, error = {}, {}
    bad, good = tmp_path / "bad", tmp_path / "good"
    good.write_bytes(sample_documents.pdf("heron"))
    async with worker_client.open_worker() as shop:
        for name, make in ATTACKS.items():
            bad.write_bytes(make())
            await shop.run_job(derived_files.worker_job(derived_files.TEXT, good, tmp_path / "made"))
            pid = shop.pid
            assert pid is not None
            before = _processor_seconds(pid)
            try:
                await shop.run_job(derived_files.worker_job(derived_files.TEXT, bad, tmp_path / "made"))
            except worker_client.WorkerFailed as failed:
                error[name] = str(failed)
            cost[name] = _processor_seconds(pid) - before
        await shop.run_job(derived_files.worker_job(derived_files.TEXT, good, tmp_path / "made"))
    assert (tmp_path / "made").read_text() == "heron"
    assert {name: took for name, took in cost.items() if took > worker.JOB_PROCESSOR_SECONDS / 2} == {}
    assert {name: why for name, why in error.items() if "invalid group" in why} == {}
    # None ends the worker by the time that it takes.
    assert {name: why for name, why in error.items() if "signal 14" in why or "signal 27" in why} == {}


@pytest.mark.parametrize("name", ATTACKS)
async def test_the_service_goes_on_after_an_attack(name, api):
    """The first look happens here; at once, and the next request is answered."""
    with trio.fail_after(30):
        await api.upload(f"{name}.bin", ATTACKS[name]())
        await api.ask("GET", "/users/me")


async def test_a_job_that_computes_without_end_is_ended(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    program = (
        "from cmsfs.service.worker import extraction, worker\n"
        "worker.JOB_PROCESSOR_SECONDS = 0.2\n"
        "extraction.extract_text = lambda path: [0 for _ in iter(int, 1)]\n"
        "worker.main()"
    )
    monkeypatch.setattr(worker_client, "COMMAND", [sys.executable, "-P", "-c", program])
    async with worker_client.open_worker() as shop:
        with pytest.raises(worker_client.WorkerFailed, match="signal 27"):
            await shop.run_job(derived_files.worker_job(derived_files.TEXT, source, tmp_path / "made"))
