"""`cmsfs text`: what a document says, and why there is nothing to print."""

import json
from pathlib import Path

import pytest

from cmsfs.cli import main


@pytest.fixture
def put(sample: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`put(name, data)`: a file at the top of the service."""

    def run(name: str, data: bytes) -> None:
        (tmp_path / name).write_bytes(data)
        assert main.run(["put", str(tmp_path / name), "/"]) == 0
        capsys.readouterr()

    return run


def test_the_words_of_a_document_are_printed(put, capsys):
    put("page.html", b"<html><body><h1>Harbour</h1><p>the lease &amp; more</p></body></html>")
    assert main.run(["text", "/page.html"]) == 0
    assert capsys.readouterr().out.split() == ["Harbour", "the", "lease", "&", "more"]
    assert main.run(["text", "--json", "page.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == "/page.html"
    assert "lease" in found["text"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nothing.html", "There is no /nothing.html on the service."),
        ("/", "/ is not a file; only files have text."),
        ("/picture.bin", "No text could be extracted from /picture.bin"),
    ],
)
def test_what_has_no_text_is_told(put, capsys, path: str, said: str):
    put("picture.bin", bytes(range(256)))
    assert main.run(["text", path]) == 1
    assert said in capsys.readouterr().err


def test_a_broken_document_has_no_text(put, capsys, expect_log):
    expect_log("cannot make extracted_text of content")
    put("broken.pdf", b"%PDF-1.4 and no more")
    assert main.run(["text", "/broken.pdf"]) == 1
    assert "No text could be extracted from /broken.pdf" in capsys.readouterr().err


def test_the_wait_has_an_end(put, capsys):
    put("page.html", b"<html><body>words</body></html>")
    assert main.run(["text", "--wait", "0", "/page.html"]) == 1
    assert "text of /page.html was not extracted within 0 s" in capsys.readouterr().err
