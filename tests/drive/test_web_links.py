"""Web links on a real mount, in the hands of ordinary programs: editors, `cp`, rsync, git, the desktop."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until

TEXT = "[InternetShortcut]\nURL=https://example.com/a\n"

BROWSER = """[Desktop Entry]
Type=Application
Name=Browser
Exec=sh -c 'printf %%s "$1" > "$0.part"; mv "$0.part" "$0"' {heard} %u
MimeType=x-scheme-handler/https;
"""


def kind(path: Path) -> str:
    return os.getxattr(path, "user.cms.type").decode()


def identity(path: Path) -> str:
    return os.getxattr(path, "user.cms.id").decode()


def test_programs_make_change_and_remove_web_links(drive: MountedDrive) -> None:
    folder = drive.top / "shortcuts"
    folder.mkdir()
    site = folder / "site.url"
    site.write_text(TEXT)
    drive.sync()
    assert kind(site) == "web_link"
    assert (
        "is a web link to https://example.com/a." in drive.cmsfs("get", "/shortcuts/site", check=False).stderr
    )
    assert drive.sh("ls; cat site.url; file -b --mime-type site.url", cwd=folder).startswith(
        f"site.url\n{TEXT}"
    )
    first = identity(site)
    # A stream editor writes another file and renames it; the shell cuts and writes; an editor does its own.
    ways = {
        "sed": "sed -i s,com/a,com/sed, site.url",
        "shell": "printf '[InternetShortcut]\\nURL=https://example.com/shell\\n' > site.url",
        "append": "echo Comment=said >> site.url",
        "vim": "vim -Nes -u NONE -c '%s/shell/vim/' -c wq site.url",
        "patch": "printf 'exampl3' | dd of=site.url bs=1 seek=31 conv=notrunc status=none",
    }
    for name, script in ways.items():
        if name == "vim" and shutil.which("vim") is None:
            continue
        drive.sh(script, cwd=folder)
        drive.sync()
        assert (kind(site), identity(site)) == ("web_link", first), name
    assert (
        "is a web link to https://exampl3.com/" in drive.cmsfs("get", "/shortcuts/site", check=False).stderr
    )
    assert "Comment=said" in site.read_text()
    # The address as an attribute, of a file whose bytes the kernel has.
    for url in ("https://example.com/much/longer/than/before", "https://b.example/"):
        assert drive.sh(f"setfattr -n user.xdg.origin.url -v {url} site.url; cat site.url", cwd=folder) == (
            f"[InternetShortcut]\nURL={url}\nComment=said\n"
        )
        assert os.getxattr(site, "user.cms.url").decode() == url
        drive.sync()
        assert (kind(site), identity(site)) == ("web_link", first)
        assert f"is a web link to {url}" in drive.cmsfs("get", "/shortcuts/site", check=False).stderr
    # A copy is another one; under a name of a file it is a file; what is removed is in the trash.
    drive.sh("cp -p site.url copy.url; mv copy.url moved.url; cp site.url gone.url", cwd=folder)
    drive.sync()
    assert kind(folder / "moved.url") == "web_link"
    assert identity(folder / "moved.url") != first
    drive.sh("mv moved.url moved.txt; rm gone.url", cwd=folder)
    drive.sync()
    assert sorted(path.name for path in folder.iterdir()) == ["moved.txt", "site.url"]
    assert kind(folder / "moved.txt") == "file"
    assert (folder / "moved.txt").read_bytes() == site.read_bytes()
    found = json.loads(
        drive.cmsfs("find", "--in", "/shortcuts", "site", "OR", "moved", "OR", "gone", "--json").stdout
    )
    assert sorted((item["type"], item["name"]) for item in found) == [
        ("file", "moved.txt"),
        ("web_link", "site"),
    ]


def test_rsync_and_git_find_nothing_to_do(shared: MountedDrive, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "unix.url").write_text(TEXT)
    (source / "windows.url").write_bytes(b"[InternetShortcut]\r\nURL=https://example.com/w\r\n")
    (source / "icon.url").write_bytes(b"[InternetShortcut]\r\nURL=https://example.com/i\r\nIconIndex=1\r\n")
    (source / "none.url").write_bytes(os.urandom(500))
    target = shared.top / "copied"
    rsync = f"rsync -a --itemize-changes {source}/ {target}/"
    assert ">f+++++++++ unix.url" in shared.sh(rsync)
    git = f"git --git-dir={tmp_path}/git --work-tree={target} -c user.name=A -c user.email=a@example.com "
    shared.sh(f"git init -q --separate-git-dir={tmp_path}/git {tmp_path}/empty")
    shared.sh(f"{git} add -A . ; {git} commit -q -m one", cwd=target)
    shared.sync()
    assert {path.name: kind(path) for path in target.iterdir()} == {
        "unix.url": "web_link",
        "windows.url": "web_link",
        "icon.url": "file",
        "none.url": "file",
    }
    assert shared.sh(rsync) == ""
    assert shared.sh(f"rsync -a --checksum --itemize-changes {source}/ {target}/") == ""
    assert shared.sh(f"{git} status --porcelain", cwd=target) == ""
    # Nor after a restart.
    shared.stop()
    shared.start()
    assert shared.sh(rsync) == ""
    assert shared.sh(f"diff -r {source} {target}") == ""


@pytest.mark.skipif(shutil.which("gio") is None, reason="no desktop here")
def test_a_double_click_opens_the_address(shared: MountedDrive, tmp_path: Path) -> None:
    site = shared.top / "my site.url"
    site.write_text("[InternetShortcut]\nURL=https://example.com/?a=1&b=%20#c\n")
    script = shared.top / "script.url"
    script.write_text("[InternetShortcut]\nURL=javascript:alert(1)\n")
    shared.sync()
    heard = tmp_path / "heard"
    programs = shared.home / "data" / "applications"
    programs.mkdir(parents=True)
    entry = (Path(__file__).parents[2] / "packaging/desktop/cmsfs-weblink.desktop").read_text()
    assert "Exec=cmsfs open %f" in entry
    entry = entry.replace("Exec=cmsfs", f"Exec={sys.executable} -m cmsfs")
    (programs / "cmsfs-weblink.desktop").write_text(entry)
    (programs / "browser.desktop").write_text(BROWSER.format(heard=heard))
    (shared.home / "config" / "mimeapps.list").write_text(
        "[Default Applications]\n"
        "application/x-mswinurl=cmsfs-weblink.desktop\n"
        "x-scheme-handler/https=browser.desktop\n"
    )
    said = shared.sh(
        "gio info -a standard::content-type 'my site.url'; xdg-mime query filetype 'my site.url'"
    )
    assert said.count("application/x-mswinurl") == 2
    shared.sh("gio open 'my site.url'")
    until(heard.exists, 60)
    assert heard.read_text() == "https://example.com/?a=1&b=%20#c"
    refused = subprocess.run(
        [sys.executable, "-m", "cmsfs", "open", str(script)], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 1
    assert "is not a web URL" in refused.stderr
