"""The support bundle: diagnostics for a bug report, with secrets redacted.

Rule: the contents are an explicit allowlist; in addition, everything that looks like a secret is redacted.
"""

import json
import os
import platform
import re
import subprocess
import zipfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cmsfs
from cmsfs import config, errors, mounts
from cmsfs.auth import apps, token_store
from cmsfs.cli.doctor.checks import Check
from cmsfs.cli.support import daemonctl

LOG_BYTES = 512 * 1024
JOURNAL_SECONDS = 10.0

# Settings that identify a person or an application.
_PERSONAL = ("client_id", "subject_id")

_STRUCK = "(removed)"

# Logs may contain names chosen by others: each expression must run in linear time.
_SUSPICIOUS = (
    re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]++\.[\w-]*"),  # a JSON Web Token
    re.compile(
        r"(?i)\b(access_token|refresh_token|client_secret|subject_token|actor_token|assertion|password|code"
        r"|state|shared_link|token)([\"']?\s*[:=]\s*[\"']?)[^\s\"'&,}]{4,}"
    ),
    re.compile(
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----BEGIN ).)*?-----END [A-Z ]{0,40}PRIVATE KEY-----",
        re.DOTALL,
    ),
    re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.-]+"),
)


def write(path: Path, settings: config.Settings, checks: Iterable[Check], *, unit: str) -> None:
    """Write the bundle, readable by this user only.  Raises `UserError`.

    `unit` is the systemd unit that the drive may run as.
    """
    redact = Redactor(settings)
    parts = {
        "checks.json": _json([asdict(check) for check in checks]),
        "machine.json": _json(_machine()),
        "settings.json": _json(_settings(settings)),
        "status.json": _json(_status(settings)),
        "cmsfsd.log": _tail(settings.paths.log),
        "journal.log": _journal(unit),
    }
    try:
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in parts.items():
                archive.writestr(f"cmsfs-report/{name}", redact(text))
    except OSError as error:
        raise errors.UserError(f"{path} cannot be written: {error.strerror}.") from None


class Redactor:
    """Redacts secrets in a text: the account's own by value, others by pattern."""

    def __init__(self, settings: config.Settings) -> None:
        found = {value for value in _secrets(settings) if len(value) >= 4}
        # Longest first: one may contain another.
        self._secrets = sorted(found, key=len, reverse=True)
        self._home = str(Path.home())

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _STRUCK).replace(json.dumps(secret)[1:-1], _STRUCK)
        for pattern in _SUSPICIOUS:
            text = pattern.sub(
                lambda found: f"{found[1]}{found[2]}{_STRUCK}" if found.re.groups == 2 else _STRUCK, text
            )
        return text.replace(self._home, "~") if len(self._home) > 1 else text


def _secrets(settings: config.Settings) -> set[str]:
    found = {settings.client_id, settings.subject_id}
    try:
        if settings.client_secret_file is not None:
            found.add(settings.client_secret_file.expanduser().read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        pass
    try:
        if settings.app_file is not None:
            app = apps.read(settings.app_file)
            found |= {app.client_id, app.client_secret, app.user_id, app.enterprise_id}
            if app.key is not None:
                found |= {app.key.pem, app.key.passphrase or ""}
    except errors.CmsfsError:
        pass
    try:
        if settings.login == "person" and (kept := token_store.open_token_store(settings).read()) is not None:
            found |= {kept.client_id, kept.client_secret, kept.refresh_token, kept.access_token}
    except errors.CmsfsError:
        pass
    return found


def _machine() -> dict[str, Any]:
    return {
        "cmsfs": cmsfs.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "user": "root" if os.geteuid() == 0 else "not root",
        "drives": [
            {"fstype": mount.fstype, "connection": mount.connection}
            for mount in mounts.listing()
            if mount.is_drive
        ],
    }


def _settings(settings: config.Settings) -> dict[str, Any]:
    found = settings.model_dump(mode="json")
    return {key: _STRUCK if key in _PERSONAL and value else value for key, value in found.items()}


def _status(settings: config.Settings) -> dict[str, Any]:
    daemon = daemonctl.find_account(settings.place)
    if daemon is None:
        return {"mounted": False}
    found = daemonctl.status(daemon).model_dump(mode="json")
    # File names are private; counts and the service's error messages help.
    for op in found["queue"]["ops"]:
        op["path"] = _STRUCK
    return {"mounted": True, **found}


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _journal(unit: str) -> str:
    """Return the unit's journal."""
    try:
        done = subprocess.run(
            ["journalctl", "--user", f"--unit={unit}", "--lines=5000", "--no-pager", "--output=short-iso"],
            capture_output=True,
            timeout=JOURNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[-LOG_BYTES:].decode("utf-8", "replace")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
