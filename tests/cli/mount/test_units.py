"""The drive as a unit of systemd: when it is one, what the unit is called, and the unit files themselves.

The manager is played by a program of the test's own here; tests/packaging has the real one.
"""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cmsfs import config, errors, mounts, process_env
from cmsfs.cli import main
from cmsfs.cli.mount import units
from cmsfs.cli.support import daemonctl

ROOT = Path(__file__).parents[3]

# Keeps its words in a file, knows the folders of whoever calls it, and starts nothing.
_MANAGER = """#!/bin/sh
echo "$*" >> "{folder}/asked"
case "$*" in
*show-environment*) cat "{folder}/environment" ;;
*" cat "*) test -e "{folder}/installed" ;;
*" start "*) test ! -e "{folder}/broken" ;;
*" show "*) echo "ExecMainStatus=6"; echo "StatusText=The service refuses the credentials." ;;
esac
"""


@pytest.fixture
def manager(tmp_path: Path, private_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that says what the manager knows; in it `asked`, a line for each call."""
    folder = tmp_path / "manager"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(_MANAGER.format(folder=folder))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (private_folders / "run" / "systemd").mkdir()
    (private_folders / "run" / "systemd" / "private").touch()
    names = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    (folder / "environment").write_text("".join(f"{name}={os.environ[name]}\n" for name in names))
    return folder


def _asked(manager: Path) -> list[str]:
    return (manager / "asked").read_text().splitlines() if (manager / "asked").exists() else []


@pytest.mark.parametrize(
    "account", ["default", "a b", "me@example.com", "a-b", ".x", "Büro", "a.b_c:1", "a\\b"]
)
def test_a_unit_is_named_as_systemd_escapes_it(account: str) -> None:
    if not shutil.which("systemd-escape"):
        pytest.skip("systemd-escape is not here")
    told = subprocess.run(
        ["systemd-escape", "--template=cmsfs@.service", "--", account],
        capture_output=True,
        text=True,
        check=True,
    )
    assert units.name(account) == told.stdout.strip()


def test_a_command_line_like_the_unit_is_one(manager: Path) -> None:
    settings = config.load()
    assert units.refusal(settings, mounts.located(settings.mountpoint)) == ""


def test_without_a_manager_there_is_no_unit(private_folders: Path) -> None:
    settings = config.load()
    assert "No systemd user manager" in units.refusal(settings, mounts.located(settings.mountpoint))


def test_another_mountpoint_or_surroundings_are_none(manager: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config.load()
    place = mounts.located(settings.mountpoint)
    assert "mounts at the configured ~/cmsfs" in units.refusal(settings, Path("/elsewhere"))
    monkeypatch.setenv("CMSFS_POLL_SECONDS", "1")
    assert "CMSFS_POLL_SECONDS" in units.refusal(settings, place)
    monkeypatch.delenv("CMSFS_POLL_SECONDS")
    (manager / "environment").write_text("HOME=/x\n")
    assert "different XDG_CONFIG_HOME" in units.refusal(settings, place)


def test_failed_start_reports_daemons_message(manager: Path) -> None:
    (manager / "broken").touch()
    with pytest.raises(errors.UserError, match="refuses the credentials") as told:
        units.start("default")
    assert told.value.exit_code == 6
    assert _asked(manager)[-1].endswith("stop cmsfs@default.service")


def test_custom_environment_is_in_the_unit(manager: Path) -> None:
    written = units.ensure()
    assert written == process_env.user_units() / "cmsfs@.service"
    text = written.read_text()
    assert "ExecStart=/usr/bin/" not in text
    assert "ExecReload=/" in text
    (manager / "installed").touch()
    assert units.ensure() is None


def test_mount_says_why_it_cannot_be_a_unit(cmsfs: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = cmsfs("mount", "--systemd")
    assert (done.returncode, done.stderr) == (
        2,
        "cmsfs: No systemd user manager is running here.\n",
    )
    assert cmsfs("mount", "--enable", "--foreground").returncode == 2


@pytest.mark.usefixtures("fuse")
def test_enable_keeps_mountpoint_of_each_account(manager: Path, tmp_path: Path) -> None:
    (manager / "installed").touch()
    file = config.config_file()
    file.parent.mkdir()
    file.write_text('# mine\n[accounts.work]\nprofile = "embedded"\n[accounts.home]\nprofile = "embedded"\n')
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
        assert main.run(["--account", name, "mount", str(tmp_path / name), "--enable"]) == 0
        assert config.load(name).mountpoint == tmp_path / name
        assert f"enable cmsfs@{name}.service" in _asked(manager)[-1]
    assert file.read_text().startswith("# mine\n")
    assert main.run(["mount", str(tmp_path / "work"), "--enable"]) == 2  # not logged in
    assert config.load().mountpoint == Path("~/cmsfs")


@pytest.mark.usefixtures("fuse")
def test_a_dead_mount_alone_is_taken_away(
    cmsfs: Callable[..., subprocess.CompletedProcess[str]], mountpoint: Path
) -> None:
    """What the unit does after the daemon, however that ended."""
    assert cmsfs("umount", "--dead", mountpoint).returncode == 0
    assert cmsfs("demo", mountpoint).returncode == 0
    alive = cmsfs("umount", "--dead", mountpoint)
    assert alive.returncode == 3
    assert mounts.find(mountpoint)
    daemon = daemonctl.find_account("default")
    assert daemon
    os.kill(daemon.pid, signal.SIGKILL)
    assert daemonctl.await_exit(daemon, seconds=10)
    assert cmsfs("umount", "--dead", mountpoint).stdout == f"Removed the dead mount at {mountpoint}.\n"
    assert mounts.find(mountpoint) is None


@pytest.mark.parametrize("unit", ["cmsfs@.service", "cmsfs-serve.service", "cmsfs-serve@.service"])
def test_systemd_finds_nothing_wrong_with_a_unit(unit: str, tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    # Its programs and manual pages are not installed here, and it would say so.
    text = (ROOT / "systemd" / unit).read_text().replace("/usr/bin/cmsfs", "/bin/true")
    lines = [
        line for line in text.replace("/bin/trued", "/bin/true").splitlines() if "Documentation=" not in line
    ]
    copy = tmp_path / unit
    copy.write_text("\n".join(lines))
    who = [] if "DynamicUser=yes" in lines else ["--user"]
    done = subprocess.run(
        ["systemd-analyze", "verify", *who, copy], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("ended", "cleans"),
    [
        ("success:0", True),
        ("exit-code:3", True),
        ("timeout:KILL", True),
        ("exit-code:1", False),
        ("signal:KILL", False),
        ("watchdog:ABRT", False),
    ],
)
def test_next_daemon_replaces_dead_mount(ended, cleans):
    """What is started again takes it away itself, sooner than a command before it could."""
    unit = ROOT / "systemd" / "cmsfs@.service"
    (line,) = [one for one in unit.read_text().splitlines() if one.startswith("ExecStopPost=")]
    script = shlex.split(line.removeprefix("ExecStopPost=-"))
    script[-1] = script[-1].replace("exec /usr/bin/cmsfs", "echo")
    result, _, status = ended.partition(":")
    surroundings = {"SERVICE_RESULT": result, "EXIT_STATUS": status}
    done = subprocess.run(script, env=surroundings, capture_output=True, text=True, check=True)
    assert ("umount --dead" in done.stdout) is cleans
