"""`cmsfs tray --autostart`: the entry in the desktop's autostart folder."""

import configparser
import shlex

from cmsfs import config
from cmsfs.cli import main


def test_icon_is_shown_at_login_while_wanted(capsys):
    entry = config.autostart_entry("cmsfs-tray")
    assert main.run(["tray", "--autostart"]) == 0
    assert "at every login" in capsys.readouterr().out
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(entry.read_text(encoding="utf-8"))
    assert shlex.split(parsed["Desktop Entry"]["Exec"])[-1] == "tray"
    for _ in range(2):
        assert main.run(["tray", "--no-autostart"]) == 0
        assert not entry.exists()
