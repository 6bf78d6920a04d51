"""The drive among the places of KDE: once for each folder, and only where there are any."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from cmsfs import config
from cmsfs.replica.database import open_replica
from daemon.desktop import kde_places

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE xbel>\n<xbel xmlns:bookmark="http://b">\n'
HOME = ' <bookmark href="file:///home/ada"><title>Home</title></bookmark>\n'


def places(file: Path) -> dict[str, str | None]:
    root = ElementTree.parse(file).getroot()
    return {str(one.get("href")): one.findtext("title") for one in root.findall("bookmark")}


async def test_drive_is_among_the_places_of_kde(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file, mountpoint = tmp_path / "user-places.xbel", tmp_path / "a & b"
    settings = config.Settings(account="R & D", profile="box")
    async with open_replica(tmp_path / "replica.db") as db:

        async def mount(at: Path) -> None:
            await kde_places.show(db, settings, at)

        await mount(mountpoint)
        assert not file.exists()
        file.write_text(f"{HEAD}{HOME}</xbel>\n")
        file.chmod(0o600)
        await mount(mountpoint)
        home = {"file:///home/ada": "Home"}
        assert places(file) == home | {mountpoint.as_uri(): "R & D, Box"}
        assert file.stat().st_mode & 0o777 == 0o600
        # Whoever removes it has it removed, until the drive is somewhere else.
        file.write_text(f"{HEAD}{HOME}</xbel>\n")
        await mount(mountpoint)
        assert places(file) == home
        await mount(tmp_path / "other")
        assert places(file) == home | {(tmp_path / "other").as_uri(): "R & D, Box"}
        file.write_text("what KDE never wrote")
        await mount(mountpoint)
        assert file.read_text() == "what KDE never wrote"
        assert sorted(one.name for one in tmp_path.iterdir() if "xbel" in one.name) == [file.name]
