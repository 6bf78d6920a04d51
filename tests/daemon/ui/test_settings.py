"""Settings, accounts and checks, which the command line carries out."""

import pytest

from cmsfs import config, errors
from daemon.ui import commands
from tests.daemon.ui.conftest import Reader
from tests.support.daemon_drive import Drive


async def test_settings_are_explained(reader: Reader) -> None:
    text = await reader.get("settings")
    assert 'id="setting-cache_bytes"' in text
    assert "<option selected>true</option>" in text
    for value in ("--help", "x"):
        told = await reader.post("keep", name="--help", value=value, back="settings")
        assert "There is no setting --help" in told


@pytest.mark.long
async def test_a_setting_is_kept(reader: Reader) -> None:
    assert "poll_seconds is 7.5 from the next mount on" in await reader.post(
        "keep", name="poll_seconds", value="7.5", back="settings"
    )
    assert config.load("default").poll_seconds == 7.5
    assert "set: " in await reader.get("settings")


@pytest.mark.long
async def test_a_wrong_value_is_refused_and_a_default_taken_back(reader: Reader) -> None:
    await reader.post("keep", name="poll_seconds", value="7.5", back="settings")
    refused = await reader.post("keep", name="poll_seconds", value="often", back="settings")
    assert 'role="alert"' in refused
    assert "poll_seconds" in refused
    assert config.load("default").poll_seconds == 7.5
    await reader.post("keep", name="poll_seconds", value="7.5", choice="default", back="settings")
    assert config.load("default").poll_seconds == config.Settings().poll_seconds


@pytest.mark.long
async def test_no_option_is_smuggled_in(reader: Reader) -> None:
    told = await reader.post("keep", name="--help", value="x", back="settings")
    assert "There is no setting --help" in told
    told = await reader.post("keep", name="poll_seconds", value="--help", back="settings")
    assert 'role="alert"' in told
    for account in ("--version", "a/b", ""):
        assert "An account has a name" in await reader.post("login", account=account, back="accounts")


@pytest.mark.long
async def test_the_checks_are_shown_with_their_remedies(reader: Reader) -> None:
    assert "Check now" in await reader.get("accounts")
    text = await reader.post("check", back="accounts")
    assert 'class="tag ok">ok</span> configuration' in text
    assert "FUSE" in text or "fuse" in text


@pytest.mark.long
async def test_a_command_that_fails_says_why(drive: Drive) -> None:
    with pytest.raises(errors.UserError, match="There is no setting"):
        await commands.run("default", "config", "get", "nothing")
    with pytest.raises(errors.UserError, match="took too long"):
        await commands.run("default", "config", "path", seconds=0)
