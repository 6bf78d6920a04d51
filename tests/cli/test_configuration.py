"""config show, check, edit, path, and the file that documents every setting."""

import json
import re
import tomllib
from importlib import resources

import pytest

from cmsfs import config
from cmsfs.cli import config_file, main


@pytest.fixture
def written():
    """`written(text)`: the configuration file is this."""

    def write(text):
        path = config.config_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_every_setting_is_documented_with_its_default():
    text = (resources.files("cmsfs") / "config.example.toml").read_text(encoding="utf-8")
    found, remarked = {}, set()
    for line in text.splitlines():
        if match := re.fullmatch(r"# (\w+ = .*)", line):
            setting = re.sub(r"\s+\([^()]*\)$", "", match[1])
            values = tomllib.loads(setting)
            # What has a remark has no default that could be written.
            found |= values
            remarked |= set() if setting == match[1] else set(values)
    defaults = {name: field.default for name, field in config.Settings.model_fields.items()}
    assert set(found) == set(defaults), "config.example.toml and the settings differ"
    for name in found.keys() - remarked:
        value = defaults[name]
        assert found[name] == type(found[name])(value), name
    assert config_file.problems(text) == []


def test_show_tells_where_a_setting_comes_from(written, monkeypatch, capsys):
    written('cache_bytes = 1000\nlog_level = "DEBUG"\n[accounts.work]\nlog_level = "ERROR"\n')
    monkeypatch.setenv("CMSFS_POLL_SECONDS", "7")
    assert main.run(["--account", "work", "config", "show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cache_bytes"] == {"value": 1000, "from": "file"}
    assert found["log_level"] == {"value": "ERROR", "from": "[accounts.work]"}
    assert found["poll_seconds"] == {"value": 7.0, "from": "CMSFS_POLL_SECONDS"}
    assert "drain_seconds" not in found
    assert main.run(["config", "show", "--all"]) == 0
    assert re.search(r"drain_seconds +30\.0 +default", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cache_byte = 1", "there is no setting cache_byte; did you mean cache_bytes?\n"),
        (
            '[accounts.work]\nlog_levle = "INFO"',
            "[accounts.work] there is no setting log_levle; did you",
        ),
        ('log_level = "LOUD"', "log_level: Input should be"),
        ('profile = "bxo"', "There is no profile 'bxo'"),
        ('profile = "server"', "needs base_url"),
        ("a = = 1", "This is no TOML"),
        ("accounts = 1", "`accounts` must be"),
    ],
)
def test_check_says_what_is_wrong(written, text, said, capsys):
    written(text + "\n")
    assert main.run(["config", "check"]) == 2
    assert said in capsys.readouterr().err


def test_check_says_all_of_it_at_once(written, monkeypatch, capsys):
    written("cache_byte = 1\nupload_worker = 2\n")
    monkeypatch.setenv("CMSFS_PROFIEL", "box")
    assert main.run(["config", "check"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "CMSFS_PROFILE?" in lines[2]


def test_check_of_what_holds(written, capsys):
    assert main.run(["config", "check"]) == 0
    assert "the defaults hold" in capsys.readouterr().out
    path = written("cache_bytes = 1\n")
    assert main.run(["config", "check"]) == 0
    assert capsys.readouterr().out == f"{path} holds.\n"


def test_path(capsys):
    assert main.run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{config.config_file()}\n"


def _editor(tmp_path, monkeypatch, script):
    program = tmp_path / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(program))


def test_edit_begins_with_all_settings_and_takes_what_holds(tmp_path, monkeypatch, cmsfs):
    _editor(tmp_path, monkeypatch, 'echo "cache_bytes = 5" >> "$1"')
    done = cmsfs("config", "edit")
    assert done.returncode == 0
    text = config.config_file().read_text()
    assert text.startswith("# The settings of cmsfs")
    assert config.load().cache_bytes == 5
    assert config.config_file().stat().st_mode & 0o777 == 0o600


def test_edit_refuses_what_does_not_hold(tmp_path, monkeypatch, written, cmsfs):
    path = written("cache_bytes = 1 # mine\n")
    _editor(tmp_path, monkeypatch, 'echo "cache_byte = 5" >> "$1"')
    done = cmsfs("config", "edit")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "cmsfs: The file does not hold; nothing was changed."
    assert path.read_text() == "cache_bytes = 1 # mine\n"
