"""config show, check, edit, path, and the file that documents every setting."""

import json
import re
import tomllib

import pytest

from cmsfs import config
from cmsfs.cli import main
from cmsfs.cli.support import config_file
from cmsfs.config import descriptions


@pytest.fixture
def written():
    """`written(text)`: the configuration file is this."""

    def write(text):
        path = config.config_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_example_file_has_every_setting():
    text = descriptions.example()
    found: dict[str, str] = {}
    remarked: set[str] = set()
    for line in text.splitlines():
        if match := re.fullmatch(r"# (\w+ = .*)", line):
            setting = re.sub(r"\s+\([^()]*\)$", "", match[1])
            values = tomllib.loads(setting)
            # What has a remark has no default that could be written.
            found |= values
            remarked |= set() if setting == match[1] else set(values)
    defaults = {name: field.default for name, field in config.Settings.model_fields.items()}
    assert set(found) == set(defaults), "the example file and the settings differ"
    for name in found.keys() - remarked:
        value = defaults[name]
        assert found[name] == type(found[name])(value), name
    assert config_file.problems(text) == []


def test_every_setting_is_described():
    for one in descriptions.everything():
        assert one.text[0].isalnum() or one.text[0] == "`", one.name
        assert one.text.endswith("."), one.name
        assert one.kind != "value" or one.name == "bandwidth", one.name
    for old, name in config.OLD_NAMES.items():
        assert old not in config.Settings.model_fields, "an old name cannot be another setting's"
        assert old in descriptions.describe(name).old_names


def test_old_setting_names_are_read(written, monkeypatch):
    written("sweep_hours = 3\n[accounts.work]\nsweep_hours = 5\n[accounts.home]\nfull_compare_hours = 7\n")
    assert config.load().full_compare_hours == 3
    assert config.load("work").full_compare_hours == 5
    assert config.load("home").full_compare_hours == 7
    monkeypatch.setenv("CMSFS_SWEEP_HOURS", "9")
    assert config.load("home").full_compare_hours == 9
    assert config.origins("home")["full_compare_hours"] == "CMSFS_SWEEP_HOURS"
    assert config.named_in_environment().count("CMSFS_SWEEP_HOURS") == 1
    monkeypatch.setenv("CMSFS_FULL_COMPARE_HOURS", "11")
    assert config.load("home").full_compare_hours == 11
    assert config.unknown_variables() == []


def test_check_names_a_renamed_setting(written, monkeypatch, capsys):
    written("sweep_hours = 3\n[accounts.work]\ntrash_listed = true\n")
    monkeypatch.setenv("CMSFS_ATTRIBUTES_DAYS", "9")
    assert main.run(["config", "check"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "sweep_hours is now called full_compare_hours; the old name is still read.",
        "[accounts.work] trash_listed is now called list_trash; the old name is still read.",
        "CMSFS_ATTRIBUTES_DAYS is now called CMSFS_ATTRIBUTE_RETENTION_DAYS; the old name is still read.",
    ]


def test_update_replaces_an_old_name(written):
    path = written("[accounts.work]\nsweep_hours = 3 # seldom\n")
    config_file.update("work", {"full_compare_hours": 4.0})
    assert "sweep_hours" not in path.read_text()
    assert config.load("work").full_compare_hours == 4


def test_show_of_one_setting_describes_it(written, capsys):
    written("sweep_hours = 3\n")
    assert main.run(["config", "show", "sweep_hours"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"full_compare_hours +3\.0 +file", lines[0])
    assert lines[1] == descriptions.describe("full_compare_hours").text
    assert re.fullmatch(r"unit +hours", lines[3])
    assert main.run(["config", "show", "poll_second"]) == 2
    assert "did you mean poll_seconds?" in capsys.readouterr().err


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
        ('log_level = "LOUD"', 'log_level: "LOUD" is not "DEBUG" or'),
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
    assert "using the defaults" in capsys.readouterr().out
    path = written("cache_bytes = 1\n")
    assert main.run(["config", "check"]) == 0
    assert capsys.readouterr().out == f"{path} is valid.\n"


def test_path(capsys):
    assert main.run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{config.config_file()}\n"


def _editor(tmp_path, monkeypatch, script):
    program = tmp_path / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(program))


def test_config_edit_saves_valid_settings(tmp_path, monkeypatch, cmsfs):
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
    assert done.stderr.splitlines()[-1] == "cmsfs: The file is not valid; nothing was changed."
    assert path.read_text() == "cache_bytes = 1 # mine\n"


def test_set_get_unset(written, capsys):
    path = written('# mine\npoll_seconds = 9.0\n[accounts.work]\nprofile = "embedded"  # so\n')
    work = ["--account", "work", "config"]
    assert main.run([*work, "set", "poll_seconds", "7"]) == 0
    assert main.run([*work, "set", "local_names", "*.tmp", "*.bak"]) == 0
    assert main.run([*work, "set", "mountpoint", "~/work"]) == 0
    assert main.run([*work, "set", "read_only", "true"]) == 0
    found = config.load("work")
    assert (found.poll_seconds, found.local_names, found.read_only) == (7.0, ("*.tmp", "*.bak"), True)
    assert 'mountpoint = "~/work"' in path.read_text()
    assert config.load().poll_seconds == 9.0
    assert "# mine" in path.read_text()
    assert "# so" in path.read_text()
    capsys.readouterr()
    assert main.run([*work, "get", "local_names"]) == 0
    assert capsys.readouterr().out == "*.tmp *.bak\n"
    assert main.run([*work, "unset", "poll_seconds"]) == 0
    assert config.load("work").poll_seconds == 9.0
    assert main.run(["config", "set", "account", "work"]) == 0
    assert config.load().account == "work"
    assert main.run(["config", "check"]) == 0
    before = path.read_text()
    capsys.readouterr()
    assert main.run([*work, "set", "poll_seconds", "often"]) == 2
    assert 'poll_seconds: "often" is not a number.' in capsys.readouterr().err
    assert main.run([*work, "set", "poll_second", "1"]) == 2
    assert "did you mean poll_seconds?" in capsys.readouterr().err
    assert path.read_text() == before
