"""Lines of the log: for people, for the journal, for programs."""

import io
import json
import logging
import subprocess
import sys

import pytest

from cmsfs import errors, logs


@pytest.fixture
def written(monkeypatch):
    """What is logged after `written(**options)`, by and by."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("httpx", "httpcore")}

    def configure(**options):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        logs.configure("INFO", **options)
        return stream

    yield configure
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in quiet.items():
        logging.getLogger(name).setLevel(before)


def test_json_log_line_has_request_id(written):
    stream = written(form="json")
    log = logging.getLogger("cmsfs.x")
    refused = errors.ServerError(500, "broken", "no", request_id="abc123")
    with logs.context(op="upload", ino=7):
        log.info("it failed: %s\nand more", refused)
    try:
        raise ValueError("inner")
    except ValueError:
        log.info("told", exc_info=True)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["message"] == "it failed: 500 broken: no (request abc123)\nand more"
    assert (first["level"], first["logger"], first["op"], first["ino"]) == ("INFO", "cmsfs.x", "upload", 7)
    assert first["request_id"] == "abc123"
    assert first["time"].endswith("+00:00")
    assert "ValueError: inner" in second["exception"]


def test_the_journal_gets_a_priority_on_every_line(written, monkeypatch):
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    stream = written()
    logging.getLogger("cmsfs.x").info("one\ntwo")
    assert stream.getvalue() == "<6>cmsfs.x: one\n<6>two\n"


def test_json_goes_before_the_journals_form(written, monkeypatch):
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    stream = written(form="json")
    logging.getLogger("cmsfs.x").info("one")
    assert json.loads(stream.getvalue())["message"] == "one"


_WRITER = """
import logging, sys
from pathlib import Path
from cmsfs import logs

logs.configure()
logging.info("before")
for limit in (1_000_000, 1):
    logs.LOG_BYTES = limit
    logs.set_aside(Path(sys.argv[1]))
logging.info("after")
print("said")
"""


def test_a_running_process_goes_on_in_a_new_log_file(tmp_path):
    log = tmp_path / "x.log"
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", _WRITER, log], stdout=file, stderr=file, check=True)
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("root: after")
    assert lines[1] == "said"
    assert (tmp_path / "x.log.old").read_text().endswith("root: before\n")
