"""Runs the drive as a systemd user unit: whether that is possible, starting it, enabling it at login.

`drive.mount` calls `refusal` first: a unit starts in the manager's environment, so a command line with a
different one (another mountpoint, `CMSFS_*`, other XDG folders) starts its daemon itself.

Packages install the unit where the manager finds it; for a user's own Python environment, `ensure` writes it
into the user's folder with that environment's paths.

Rule: only `systemctl --user`, never the system manager; a failed start leaves no unit that retries.
"""

import subprocess
import sys
from pathlib import Path

import cmsfs
from cmsfs import config, errors, mounts, process_env

TEMPLATE = "cmsfs@.service"

# The first start may recover a large journal; the unit itself gives up before this.
START_SECONDS = 330.0
ASK_SECONDS = 20.0

# Variables that would make the manager's daemon use other folders than ours.
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


def name(account: str) -> str:
    """Return the unit name of an account, escaped as by systemd-escape(1)."""
    escaped = "".join(
        chr(byte) if _is_literal(byte, first=at == 0) else f"\\x{byte:02x}"
        for at, byte in enumerate(account.encode())
    )
    return TEMPLATE.replace("@", f"@{escaped}")


def _is_literal(byte: int, *, first: bool) -> bool:
    """Whether a byte needs no escaping in a unit's name; a dash means a slash, a leading dot hides the
    file."""
    char = chr(byte)
    return byte < 128 and (char.isalnum() or char in ":_" or (char == "." and not first))


def refusal(settings: config.Settings, mountpoint: Path) -> str:
    """Return why the drive cannot run as a unit, in one sentence; empty if it can."""
    if not process_env.user_manager().exists():
        return "No systemd user manager is running here."
    if named := config.named_in_environment():
        return f"A systemd unit does not see {named[0]} of this shell; put it into the configuration file."
    configured = config.load(settings.account)
    if mountpoint != mounts.located(configured.mountpoint):
        return f"The systemd unit mounts at the configured {configured.mountpoint} only."
    shown = _systemctl("show-environment")
    if shown.returncode:
        return "The systemd user manager is not responding."
    theirs = dict(line.partition("=")[::2] for line in shown.stdout.splitlines())
    for folder in _FOLDERS:
        if (ours := process_env.variable(folder) or "") != theirs.get(folder, ""):
            return f"The systemd user manager has a different {folder} from this shell ({ours or 'none'})."
    return ""


def is_installed() -> bool:
    """Whether the manager knows the unit."""
    return _systemctl("cat", name("default")).returncode == 0


def ensure() -> Path | None:
    """Write the unit for this environment into the user's folder unless the manager knows one; return its
    path.

    Raises `UserError` if it cannot be written, or if this installation has none.
    """
    if is_installed():
        return None
    source = _source()
    if source is None:
        raise errors.UserError("This installation has no systemd units; use one of the packages.")
    target = process_env.user_units() / TEMPLATE
    scripts = Path(sys.executable).parent
    text = source.read_text(encoding="utf-8").replace("/usr/bin/cmsfs", str(scripts / "cmsfs"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.UserError(f"{target} cannot be written: {error.strerror}.") from None
    _systemctl("daemon-reload")
    return target


def _source() -> Path | None:
    """Return the unit file of this installation: in its environment, or in the checkout that it runs from."""
    places = (Path(sys.prefix) / "share" / "systemd" / "user", Path(cmsfs.__file__).parents[1] / "systemd")
    return next((place / TEMPLATE for place in places if (place / TEMPLATE).is_file()), None)


def start(account: str) -> None:
    """Start the unit and wait until its mount responds.  Raises `UserError` with the daemon's error
    message."""
    unit = name(account)
    # After repeated failures the manager would refuse to start it for minutes, even if the cause was fixed.
    _systemctl("reset-failed", unit)
    if _systemctl("start", unit, seconds=START_SECONDS).returncode == 0:
        return
    told = _systemctl("show", unit, "--property=StatusText,ExecMainStatus")
    found = dict(line.partition("=")[::2] for line in told.stdout.splitlines())
    _systemctl("stop", unit)
    code = found.get("ExecMainStatus", "")
    raise errors.UserError(
        found.get("StatusText") or f"The unit {unit} did not start; `journalctl --user -u {unit}` says why.",
        exit_code=int(code) if code.isdigit() and 0 < int(code) < 128 else 1,
    )


def enable(account: str) -> None:
    """Enable the unit, so that it starts at every login.  Raises `UserError`."""
    done = _systemctl("enable", name(account))
    if done.returncode:
        raise errors.UserError(f"The unit {name(account)} could not be enabled: {done.stderr.strip()}.")


def _systemctl(*arguments: str, seconds: float = ASK_SECONDS) -> subprocess.CompletedProcess[str]:
    command = ["systemctl", "--user", "--no-pager", *arguments]
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
