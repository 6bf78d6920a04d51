"""Addresses of shared links, and where they are mounted."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from cmsfs import config, errors
from cmsfs.cli import main
from cmsfs.cli.mount import link_mount


def test_a_link_is_known_by_its_word():
    link = link_mount.parse("https://files.example.com/s/Wo_r-d/")
    assert (link.url, link.service) == ("https://files.example.com/s/Wo_r-d", "https://files.example.com")
    assert link.account == link_mount.parse("https://files.example.com/s/Wo_r-d").account
    assert link.account != link_mount.parse("https://files.example.com/s/word").account


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *((one, "no address of a shared link") for one in ("https://h", "https://h/s/", "https://h/x/word")),
        *(
            (one, "no address of a shared link")
            for one in ("https://a@h/s/w", "https://[/s/w", "https://h/s/a%20")
        ),
        ("http://files.example.com/s/word", "does not use TLS"),
    ],
)
def test_what_is_no_link_is_told(given, said):
    with pytest.raises(errors.UserError, match=said):
        link_mount.parse(given)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Report", "Report"),
        (".ssh", "ssh"),
        ("../a/b", "_a_b"),
        ("..", "shared link"),
        ("taken", "taken (2)"),
        ("a\nb", "a_b"),
    ],
)
def test_default_folder_is_a_new_one_of_the_home(name, place, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "taken").mkdir()
    assert link_mount.free_place(name) == tmp_path / place


@pytest.mark.parametrize(
    "arguments",
    [
        ("somewhere", "elsewhere"),
        ("--password-file", "/dev/null"),
        ("https://files.example.com/s/word", "--folder", "/Reports"),
    ],
)
def test_options_that_do_not_go_together(arguments, capsys):
    assert main.run(["mount", *arguments]) == 2
    assert "link" in capsys.readouterr().err


class _OtherService(http.server.BaseHTTPRequestHandler):
    """A service that knows no tokens for shared links."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"error":"unsupported_grant_type","error_description":"no"}'
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_service() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OtherService) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_service_wants_an_account(other_service, capsys):
    assert main.run(["mount", f"{other_service}/s/word"]) == 6
    assert "only to those who have an account there: `cmsfs login` first." in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_not_remembered_for_the_link(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for place, why in (("nowhere", "does not exist"), ("file", "is not a folder")):
        assert main.run(["mount", "https://files.example.com/s/word", str(tmp_path / place)]) == 3
        assert f"The mountpoint {tmp_path / place} {why}." in capsys.readouterr().err
    assert not config.config_file().exists()
