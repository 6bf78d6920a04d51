"""Every command of the documents is typed: here, by another test that is named, or there is a reason why not.

The guide is one sitting, typed as it says.  The blocks of the other documents are another one, in their
order, on one service and one drive.  What stands in running text was typed in one of them, or is added
below.
"""

import doctest
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import click
import httpx
import pytest

from cmsfs import mounts
from cmsfs.cli import main
from tests.support import documents
from tests.support.server_process import ServerProcess

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "cmsfs" / "cli" / "GUIDE.md"
SEMANTICS = ROOT / "cmsfs" / "vfs" / "SEMANTICS.md"  # tests/drive/test_semantics.py
SITTING = (ROOT / "README.md", ROOT / "packaging" / "ADMINISTRATION.md")

# What other tests do, and by what it is seen that they do.
MACHINE = "tests/packaging/test_systemd.py"
ELSEWHERE = {
    "cmsfs mount --enable": (MACHINE, "cmsfs mount --enable"),
    "systemctl --user status cmsfs@default": (MACHINE, "ADMINISTRATION.md"),
    "journalctl --user -u cmsfs@default": (MACHINE, "ADMINISTRATION.md"),
    "systemctl --user reload cmsfs@default": (MACHINE, "ADMINISTRATION.md"),
    "systemctl --user disable --now cmsfs@default": (MACHINE, "ADMINISTRATION.md"),
    "systemctl --user enable --now cmsfs@default.service": (
        MACHINE,
        "systemctl --user enable --now cmsfs@default.service",
    ),
    "systemctl --user enable --now cmsfs-serve.service": (
        "tests/support/machine.py",
        "systemctl --user enable --now cmsfs-serve.service",
    ),
    "loginctl enable-linger USER": ("tests/support/machine.py", "loginctl enable-linger"),
    "apt install ./cmsfs_*.deb": ("tests/packaging/test_first_day.py", "apt-get -q -y --no-install-"),
    "pipx install cmsfs-*.whl": ("tests/packaging/test_wheel.py", '"pipx install'),
    "uv tool install cmsfs-*.whl": ("tests/packaging/test_wheel.py", '"uv tool install'),
    "cmsfs serve --blobs s3://bucket/prefix": ("tests/service/storage/test_s3_server.py", '"--blobs"'),
    "cmsfs service relocate --database postgresql://... --blobs s3://backup/prefix": (
        "tests/service/storage/test_relocate.py",
        '"service", "relocate"',
    ),
    "cmsfs service renumber --data ~/ours": (
        "tests/service/storage/test_renumber.py",
        '"service", "renumber"',
    ),
    "packaging/wheel [FOLDER]": ("tests/packaging/test_wheel.py", '"packaging" / "wheel"'),
    "packaging/deb [--revision N] [FOLDER]": ("tests/packaging/conftest.py", '"packaging" / "deb"'),
    "packaging/rpm [FOLDER]": ("tests/packaging/test_builds.py", '"packaging" / "rpm"'),
    "packaging/stage FOLDER": ("tests/packaging/conftest.py", '"packaging" / "stage"'),
    "packaging/onefile [FILE]": ("tests/packaging/test_builds.py", '"packaging" / "onefile"'),
    "packaging/repository --key KEY FOLDER SUITE PACKAGE...": (
        "tests/packaging/test_builds.py",
        '"packaging" / "repository"',
    ),
    "packaging/share FOLDER": ("tests/packaging/test_share.py", '"packaging" / "share"'),
    "packaging/picture [FILE]": ("tests/packaging/test_share.py", '"packaging" / "picture"'),
    "cmsfs login https://files.example.com --jwt app.json --user 12345": (
        "tests/cli/commands/account/test_login.py",
        '"--jwt", file, "--user"',
    ),
    "cmsfs setup": ("tests/cli/commands/account/test_setup.py", '"-m", "cmsfs"]'),
    "cmsfs login --admin": ("tests/cli/commands/account/test_login.py", '"--admin"'),
    "cmsfs config set account NAME": (
        "tests/cli/commands/service/test_configuration.py",
        '"config", "set", "account"',
    ),
    "cmsfs login specification": (
        "tests/cli/commands/account/test_login.py",
        '"login", "specification"',
    ),
    "cmsfs login ADDRESS": ("tests/cli/commands/test_bad_input.py", "cmsfs login ADDRESS"),
    "cmsfs login URL --ca-file FILE": ("tests/cli/commands/test_login_tls.py", '"--ca-file", certificate'),
    "cmsfs login --token-store file": ("tests/cli/commands/test_secrets.py", '"--token-store", "file"'),
    "cmsfs mount LINK": ("tests/cli/commands/test_mount_link.py", 'cmsfs("mount", url'),
    "cmsfs mount https://files.example.com/s/WORD FOLDER": (
        "tests/cli/commands/test_mount_link.py",
        'cmsfs("mount", url, mountpoint',
    ),
    "cmsfs restore /Projects --as-of yesterday": (
        "tests/cli/commands/files/test_restore.py",
        '"restore", "/Projects", "--as-of"',
    ),
    "cmsfs restore --undo": ("tests/cli/commands/files/test_restore.py", '"restore", "--undo"'),
    "cmsfs share --edit": ("tests/cli/commands/test_mount_link.py", '"--edit"'),
    "cmsfs umount --dead": ("tests/cli/mount/test_units.py", '"--dead"'),
    "cmsfs umount --force": ("tests/cli/commands/drive/test_drive.py", '"umount", "--force"'),
    "cmsfs watch /figures --exec 'make -C ~/site'": ("tests/cli/commands/files/test_log.py", '"watch"'),
    "cmsfs ui --conflict PATH": ("tests/cli/commands/drive/test_ui.py", '"--conflict", "/a.txt"'),
    "cmsfs tray": ("tests/cli/tray/test_tray_item.py", "cmsfs.cli.tray"),
    "cmsfs tray --autostart": ("tests/cli/tray/test_autostart.py", '"tray", "--autostart"'),
    "cmsfs menu ACTION PATH": ("tests/cli/commands/drive/test_menu.py", 'cmsfs("menu"'),
    "cmsfs ui PATH": ("tests/cli/commands/drive/test_ui.py", '"ui", "--print"'),
    "cmsfs ui": ("tests/cli/commands/drive/test_ui.py", 'cmsfs("ui")'),
    "cmsfs discard PATH": ("tests/cli/commands/sync/test_conflicts.py", '"discard"'),
    "cmsfs guard": ("tests/cli/commands/sync/test_conflicts.py", '"guard"'),
    "cmsfs guard allow": ("tests/cli/commands/sync/test_conflicts.py", '"guard", "allow"'),
    "cmsfs guard undo": ("tests/drive/test_guard.py", '"guard", "undo"'),
    "cmsfs missing --remove": ("tests/cli/commands/sync/test_conflicts.py", '"missing", "--remove"'),
    "cmsfs shared --accept Team": (
        "tests/cli/commands/sync/test_conflicts.py",
        '"shared", "--accept", "Team"',
    ),
}

# What nobody types, with the reason.
NOT_TYPED = {
    "./packaging/test": "it is what runs this",
    "./packaging/test --long": "it is what runs this",
    "modprobe fuse": "it changes the machine, and is for one without /dev/fuse",
    "git status": "it is about a second machine",
    "git config core.checkStat minimal": "it is about a second machine",
    "systemctl --user edit cmsfs-serve.service": "an editor waits for a person",
    "systemctl enable --now cmsfs-serve@8472.service": "tests/packaging/test_systemd.py has it, on a machine",
}

# What is typed in place of a command that would not come here to what the document is about.
IN_PLACE = {
    "cmsfs mount --enable": "cmsfs mount",  # there is no service manager
    "cmsfs serve --data ~/service --port 8472": "cmsfs serve --data ~/service --port 0",
}
SUBSTITUTES = (
    ("--host 0.0.0.0", "--host 127.0.0.1 --port 0"),
    ("--app app.json", "--app app.json --yes"),  # nobody is there to be asked
)

# What stands in running text, typed on the drive of the sitting, after the README.
AS_WELL = (
    "getfattr -d ~/cmsfs/Welcome.md",
    "cmsfs retry",
    "cmsfs open && grep -q ~/cmsfs opened",
    "EDITOR=true cmsfs config edit",
    "cmsfs config show",
    "cd ~/cmsfs; touch old.txt; cmsfs sync && mv old.txt .trash/ && cmsfs trash purge --yes old.txt",
    "cmsfs trash empty --yes",
    "cmsfs search --save Old budget && cmsfs search --forget Old",
    "cmsfs log-level DEBUG",
    "CMSFS_DEBUG=1 cmsfs status --json",
    "exec 3< ~/cmsfs/Welcome.md; fuser -vm ~/cmsfs",
    "find ~ -xdev -name Welcome.md",
)

# The two commands of the README, which begin with the checkout's own environment.
SCRIPTS = ("packaging/setup test", "./packaging/run ~/cmsfs", "./packaging/run --stop")
SOME_TESTS = "./packaging/test tests/vfs -k rename"


class Shell:
    """A person's shell in a home of their own, in which `cmsfs` is a command."""

    def __init__(self, home: Path, programs: Path, url: str) -> None:
        self.home = home
        self.url = url
        self._path = f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PATH": self._path, "LC_ALL": "C", "PYTHONPATH": str(ROOT)}

    def words(self, command: str) -> list[str]:
        return ["bash", "-c", command.replace("https://files.example.com", self.url)]

    def type(self, command: str, *, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(command),
            cwd=folder or self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
            env=self.env,
        )

    def serve(self, command: str) -> None:
        """A service of their own, which shows its pages and ends at a signal."""
        with subprocess.Popen(
            self.words(f"exec {command}"), cwd=self.home, env=self.env, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            line = process.stdout.readline()
            try:
                said = re.match(r"Serving \S+ at ([^ ,]+?)(?:, credentials in (.+))?\.  Ctrl-C", line)
                assert said, line
                if said[2]:
                    assert "passwords" in Path(said[2]).read_text()
                    for page in ("/docs", "/openapi.json", "/admin"):
                        assert (
                            httpx.get(f"{said[1]}{page}", follow_redirects=True, timeout=60).status_code
                            == 200
                        )
            finally:
                process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@pytest.fixture
def programs(tmp_path: Path, program: Callable[[str], str]) -> Path:
    """A folder of programs: `cmsfs`, and a desktop's that opens things."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {
        "cmsfs": program("cmsfs"),
        "gio": "exit 1",
        "xdg-open": 'echo "$@" >> opened',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def shell(
    private_folders: Path, programs: Path, server: ServerProcess, app: Path, person: Callable[..., None]
) -> Iterator[Shell]:
    """A shell beside a service, whose application is `app.json`; Ada is at the browser."""
    person(login="ada@example.com")
    shutil.copyfile(app, private_folders / "app.json")
    yield Shell(private_folders, programs, server.url)
    _unmount(private_folders, programs)


def _unmount(home: Path, programs: Path) -> None:
    for found in mounts.listing():
        if found.mountpoint.startswith(f"{home}/"):
            command: list[str | Path] = [
                programs / "cmsfs",
                "umount",
                "--force",
                "--drain",
                "0",
                found.mountpoint,
            ]
            subprocess.run(command, cwd="/", capture_output=True, check=False, timeout=90)
            if mounts.find(Path(found.mountpoint)):
                mounts.detach(Path(found.mountpoint))


@pytest.mark.timeout(300)  # sixty commands one after the other
@pytest.mark.usefixtures("fuse")
def test_guide_examples_print_what_they_say(shell: Shell) -> None:
    found = [command for command in documents.of(GUIDE) if command.is_block]
    assert len(found) >= 50
    checker = doctest.OutputChecker()
    for command in found:
        done = shell.type(command.text)
        assert checker.check_output(
            command.said, done.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        ), (command, done.stdout)
    assert [one for one in mounts.listing() if one.mountpoint == str(shell.home / "reports")] == []


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("fuse")
def test_every_command_of_the_other_documents_works(shell: Shell, enterprise: None) -> None:
    typed = []
    for document in SITTING:
        for words in [_in_place(one.text) for one in documents.of(document) if one.is_block]:
            if words is None or (words in typed and words == "cmsfs mount"):
                continue
            if " serve " in words:
                shell.serve(words)
            else:
                _works(shell, words)
            typed.append(words)
        if document == SITTING[0]:
            for words in AS_WELL:
                _works(shell, words)
    assert len(typed) > 15


def _in_place(command: str) -> str | None:
    """What is typed here for a command, if anything."""
    if command not in IN_PLACE and command in {*ELSEWHERE, *NOT_TYPED, *SCRIPTS}:
        return None
    words = IN_PLACE.get(command, command)
    for stands, meant in SUBSTITUTES:
        words = words.replace(stands, meant)
    return words


def _works(shell: Shell, words: str) -> None:
    done = shell.type(words)
    assert done.returncode == 0, f"{words}\n{done.stdout}"


@pytest.fixture
def enterprise(private_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the administration's guide has at hand: `ours.toml` with its secrets, a certificate and key."""
    example = (resources.files("cmsfs.service") / "enterprise.example.toml").read_text(encoding="utf-8")
    for name, text in (("ours.toml", example), ("ann.password", "word"), ("backup.secret", "secret word")):
        (private_folders / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("BEN_PASSWORD", "another word")
    kind = ("-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=files")
    for command in (
        ("req", "-x509", *kind, "-keyout", "key.pem", "-out", "chain.pem"),
        ("rsa", "-in", "key.pem", "-pubout", "-out", "backup.pem"),
    ):
        subprocess.run(["openssl", *command], cwd=private_folders, check=True, capture_output=True)


@pytest.fixture
def checkout(private_folders: Path, programs: Path) -> Iterator[Shell]:
    """A shell in the checkout, whose own environment runs these tests."""
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("the tests run in another environment than the checkout's own")
    yield Shell(private_folders, programs, "")
    _unmount(private_folders, programs)


@pytest.mark.usefixtures("fuse")
def test_the_scripts_of_the_readme_mount_and_unmount(checkout: Shell) -> None:
    setup, run, stop = (checkout.type(command, folder=ROOT) for command in SCRIPTS)
    assert (setup.returncode, setup.stdout) == (0, "")
    assert run.returncode == 0, run.stdout
    assert f"The drive is mounted at {checkout.home}/cmsfs" in run.stdout
    assert stop.stdout == f"The drive at {checkout.home}/cmsfs is unmounted.\n"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_some_of_the_tests_can_be_run_alone(checkout: Shell) -> None:
    done = checkout.type(SOME_TESTS, folder=ROOT)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]


def _helps(command: click.Command, words: str) -> Iterator[tuple[str, str]]:
    yield words, command.help or ""
    for param in command.params:
        if isinstance(param, click.Option) and param.help:
            yield f"{words} {param.opts[0]}", param.help
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            if below := command.get_command(ctx, name):
                yield from _helps(below, f"{words} {name}")


def test_no_command_of_a_document_is_left_out() -> None:
    claims = [command for document in documents.documents() for command in documents.of(document)]
    for place, text in _helps(main.cli, "cmsfs"):
        claims += documents.spans(text, f"{place} --help")
    sittings = {documents.name(document) for document in (GUIDE, SEMANTICS, *SITTING)}
    typed = {one.text for one in claims if one.is_block and one.place.split(":")[0] in sittings}
    typed = (typed - set(NOT_TYPED)) | {*AS_WELL, *SCRIPTS, SOME_TESTS, *ELSEWHERE}
    excused = {documents.plain(command) for command in NOT_TYPED}
    left = [
        claim
        for claim in claims
        if claim.text not in typed
        and documents.plain(claim.text) not in excused
        and not any(documents.covers(command, claim.text) for command in typed)
    ]
    assert left == []
    known = {documents.plain(claim.text) for claim in claims}
    listed = {*ELSEWHERE, *NOT_TYPED, *IN_PLACE, *SCRIPTS[1:]}
    assert {command for command in listed if documents.plain(command) not in known} == set()


def test_tests_named_for_commands_run_them() -> None:
    for command, (file, text) in ELSEWHERE.items():
        assert text in (ROOT / file).read_text(encoding="utf-8"), command
