"""What `packaging/share` makes: manual pages that say what --help says, completion, the desktop's entries."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from cmsfs import config
from cmsfs.cli import main
from cmsfs.cli.support import command_table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share")
    subprocess.run([sys.executable, ROOT / "packaging" / "share", folder], check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Path:
    """A folder with `cmsfs` in it, as on the PATH of somebody who has installed it."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "cmsfs"
    script.write_text(f"#!/bin/sh\n{program('cmsfs')}\n")
    script.chmod(0o755)
    return folder


def wanted(*names: str) -> None:
    for name in names:
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")


def commands() -> list[tuple[str, click.Command]]:
    """Every command and command of a command, by the words that call it."""

    def below(words: str, command: click.Command) -> list[tuple[str, click.Command]]:
        found = [(words, command)]
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            for name in command.list_commands(ctx):
                if (each := command.get_command(ctx, name)) and not each.hidden:
                    found += below(f"{words} {name}", each)
        return found

    return below("cmsfs", main.cli)


def unmarked(page: str) -> str:
    """The text of a page, without what groff takes for itself."""
    for mark, meant in (
        ("\\-", "-"),
        ("\\e", "\\"),
        ("\\(ti", "~"),
        ("\\fB", ""),
        ("\\fR", ""),
        ("\\(dq", '"'),
    ):
        page = page.replace(mark, meant)
    return page


def test_every_command_has_a_manual_page(share: Path) -> None:
    found = commands()
    assert len(found) > 20
    for words, command in found:
        page = unmarked((share / "man" / "man1" / f"{words.replace(' ', '-')}.1").read_text())
        assert command.help
        assert command.help.split(".")[0].split("`")[0].split("\n")[0] in " ".join(page.split("\n"))
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                assert param.opts[0] in page, (words, param.opts)
        assert (".SH EXAMPLES" in page) is (words.count(" ") == 1)


def test_manual_page_has_every_setting(share: Path) -> None:
    page = unmarked((share / "man" / "man5" / "cmsfs.toml.5").read_text())
    for name in config.Settings.model_fields:
        assert f".BR {name} " in page
    assert "21_474_836_480" in page
    assert "--account" in unmarked((share / "man" / "man8" / "cmsfsd.8").read_text())
    assert "setuid=USER" in unmarked((share / "man" / "man8" / "mount.cmsfs.8").read_text())


def test_the_pages_are_well_formed(share: Path) -> None:
    pages = sorted((share / "man").rglob("*.[158]"))
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *pages], capture_output=True, text=True)
        assert done.stdout == ""
    wanted("groff")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", *pages], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_bash_completes_commands_and_options(share: Path, programs: Path) -> None:
    wanted("bash")
    script = f"""
        source {share}/bash-completion/completions/cmsfs
        complete -p cmsfs >/dev/null
        try() {{
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _cmsfs_completion cmsfs
            printf '%s\\n' "${{COMPREPLY[@]}}"
        }}
        try cmsfs mo; echo -; try cmsfs umount --fo; echo -; try cmsfs ''; echo -; try cmsfs trash ''
    """
    found = [part.split() for part in run(["bash", "-ec", script], programs).split("-\n")]
    assert found[:2] == [["mount"], ["--force"]]
    assert sorted(found[2]) == sorted(command_table.COMMANDS)
    assert sorted(found[3]) == ["empty", "list", "purge", "restore"]


def test_fish_completes_commands(share: Path, programs: Path) -> None:
    wanted("fish")
    script = f"source {share}/fish/vendor_completions.d/cmsfs.fish; complete -C 'cmsfs umo'"
    assert run(["fish", "--no-config", "-c", script], programs).split()[0] == "umount"


def test_zsh_loads_it_for_our_command(share: Path, programs: Path) -> None:
    wanted("zsh")
    script = f"""
        fpath=({share}/zsh/vendor-completions $fpath)
        autoload -U compinit && compinit -u -d {programs}/zcompdump
        print -r -- $_comps[cmsfs]
        compdef() {{ : }}
        _describe() {{ local given=$3; print -r -- ${{(P)given}} }}
        words=(cmsfs umo); CURRENT=2
        source {share}/zsh/vendor-completions/_cmsfs
        _cmsfs_completion
    """
    told = run(["zsh", "-fc", script], programs)
    assert told.startswith("_cmsfs")
    assert "umount" in told


def run(command: list[str], programs: Path) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_desktops_entries_hold(share: Path) -> None:
    wanted("desktop-file-validate", "appstreamcli")
    for entry in sorted((share / "applications").iterdir()):
        done = subprocess.run(["desktop-file-validate", entry], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")
        command = next(line for line in entry.read_text().splitlines() if line.startswith("Exec=")).split()
        assert command[0] == "Exec=cmsfs"
        assert command[1] in command_table.COMMANDS
    data = next((share / "metainfo").iterdir())
    done = subprocess.run(["appstreamcli", "validate", "--no-net", data], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert '<release version="0.1.0"' in data.read_text()


def test_the_same_source_gives_the_same_pages(share: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        subprocess.run(
            [sys.executable, ROOT / "packaging" / "share", tmp_path / name],
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
            check=True,
            timeout=60,
        )
    subprocess.run(["diff", "-r", tmp_path / "one", tmp_path / "two"], check=True)
    assert "2023-11-14" in (tmp_path / "one" / "man" / "man1" / "cmsfs.1").read_text()


@pytest.mark.long
def test_readme_picture_can_be_regenerated(tmp_path: Path) -> None:
    for needed in (Path("/dev/fuse"), Path("/usr/include/fuse3")):
        if not needed.exists():
            pytest.skip(f"there is no {needed}")
    subprocess.run(
        [sys.executable, ROOT / "packaging" / "picture", tmp_path / "p.svg"], check=True, timeout=100
    )
    picture = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "Everything" in picture
    assert "up&#160;to&#160;date" in picture
