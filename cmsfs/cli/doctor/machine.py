"""Checks of this machine: FUSE, folder permissions, disk space, limits, mounts, daemon, local state."""

import importlib.metadata
import json
import os
import resource
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cmsfs
from cmsfs import config, errors, mounts, output
from cmsfs.cli.doctor import checks as doctor_checks
from cmsfs.cli.doctor.checks import Check
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control

# pyfuse3 requires protocol 7.31 (Linux 5.4); earlier kernels lack features needed for notifications.
OLDEST_KERNEL = (5, 4)

# 256 cached contents, 40 connections, and the files that programs have open on the drive.
FILES = 1024

FUSE_CONF = Path("/etc/fuse.conf")


def checks(settings: config.Settings) -> Iterator[Check]:
    """Run all checks, one after the other."""
    for name, look in (
        ("fuse", _fuse),
        ("fusermount", _fusermount),
        ("kernel", _kernel),
        ("limits", _limits),
    ):
        yield doctor_checks.guarded(name, look)
    yield doctor_checks.guarded("stale mounts", lambda: _stale(settings))
    yield doctor_checks.guarded("sharing", lambda: _sharing(settings))
    yield doctor_checks.guarded("permissions", lambda: _permissions(settings))
    yield doctor_checks.guarded("mountpoint", lambda: _mountpoint(settings))
    yield doctor_checks.guarded("read-ahead", lambda: _read_ahead(settings))
    yield doctor_checks.guarded("disk", lambda: _disk(settings))
    yield doctor_checks.guarded("daemon", lambda: _daemon(settings))
    yield doctor_checks.guarded("local state", lambda: _state(settings))


def _fuse() -> Check:
    try:
        mounts.require_fuse()
    except errors.UserError as error:
        remedy = "sudo apt install fuse3" if "fusermount3" in error.message else "sudo modprobe fuse"
        if "cannot be opened" in error.message:
            remedy = f"ls -l {mounts.DEVICE}: it must be readable and writable for you (crw-rw-rw-)"
        return Check("fuse", "failed", error.message, remedy)
    try:
        version = importlib.metadata.version("pyfuse3")
    except importlib.metadata.PackageNotFoundError:
        return Check("fuse", "failed", "pyfuse3 is not installed.", "reinstall cmsfs")
    return Check("fuse", "ok", f"{mounts.DEVICE} can be used, pyfuse3 {version}")


def _fusermount() -> Check:
    found = shutil.which("fusermount3")
    if found is None:
        state: doctor_checks.State = "warning" if os.geteuid() == 0 else "failed"
        return Check("fusermount", state, "fusermount3 is missing.", "sudo apt install fuse3")
    if os.geteuid() != 0 and not Path(found).stat().st_mode & stat.S_ISUID:
        return Check(
            "fusermount", "failed", f"{found} does not run as root.", f"sudo chmod u+s {shlex.quote(found)}"
        )
    return Check("fusermount", "ok", found)


def _kernel() -> Check:
    release = os.uname().release
    digits = release.split("-")[0].split(".")[:2]
    if all(part.isdigit() for part in digits) and tuple(map(int, digits)) < OLDEST_KERNEL:
        wanted = ".".join(map(str, OLDEST_KERNEL))
        return Check(
            "kernel", "failed", f"Linux {release} is older than {wanted}.", "update the system's kernel"
        )
    return Check("kernel", "ok", f"Linux {release}")


def _limits() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        return Check(
            name="limits",
            state="warning",
            said=f"A process may have {soft} files open; the drive can use {FILES}.",
            remedy=f"ulimit -n {FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)}",
        )
    return Check("limits", "ok", f"{soft} open files")


def _sharing(settings: config.Settings) -> Check:
    if not settings.allow_other or os.geteuid() == 0:
        return Check(
            "sharing", "ok", "only you see the drive" if not settings.allow_other else "root shares it"
        )
    try:
        lines = FUSE_CONF.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    if "user_allow_other" not in [line.strip() for line in lines]:
        return Check(
            name="sharing",
            state="failed",
            said=f"allow_other is set, which {FUSE_CONF} does not permit.",
            remedy=f"echo user_allow_other | sudo tee -a {FUSE_CONF}",
        )
    return Check("sharing", "ok", "others may see the drive")


def _stale(settings: config.Settings) -> Check:
    """Check for drives whose daemon is dead: one at this account's mountpoint is a failure, one elsewhere
    disturbs only programs that go there."""
    places = [mount.mountpoint for mount in mounts.stale_mounts()]
    if not places:
        return Check("stale mounts", "ok", "none")
    own = str(mounts.located(settings.mountpoint))
    first = own if own in places else places[0]
    return Check(
        name="stale mounts",
        state="failed" if own in places else "warning",
        said=f"The daemon of {', '.join(places)} is dead.",
        remedy=f"fusermount3 -u -z {shlex.quote(first)}",
    )


def _permissions(settings: config.Settings) -> Check:
    paths = settings.paths
    for folder in (paths.state, paths.cache, paths.runtime, paths.drafts, paths.recovered):
        if not folder.exists():
            continue
        found = folder.stat()
        if found.st_uid != os.geteuid():
            return Check(
                name="permissions",
                state="failed",
                said=f"{folder} belongs to another user.",
                remedy=f"sudo chown -R {os.geteuid()} {shlex.quote(str(folder))}",
            )
        if found.st_mode & 0o077 and folder != paths.runtime.parent:
            return Check(
                name="permissions",
                state="failed",
                said=f"Others can look into {folder}.",
                remedy=f"chmod 700 {shlex.quote(str(folder))}",
            )
    secrets = [settings.client_secret_file, settings.app_file, config.Paths(settings.account).token]
    for path in filter(None, secrets):
        real = path.expanduser()
        if real.exists() and real.stat().st_mode & 0o077:
            return Check(
                name="permissions",
                state="failed",
                said=f"Others can read the secret in {real}.",
                remedy=f"chmod 600 {shlex.quote(str(real))}",
            )
    return Check("permissions", "ok", "only you can read what is kept here")


def _mountpoint(settings: config.Settings) -> Check:
    where = mounts.located(settings.mountpoint)
    mount = mounts.find(where)
    if mount is not None:
        if not mount.is_drive:
            return Check(
                name="mountpoint",
                state="failed",
                said=f"{where} has another file system ({mount.fstype}) mounted on it.",
                remedy="choose another mountpoint in the configuration",
            )
        return _covered(settings, where)
    if not where.exists():
        return Check("mountpoint", "ok", f"{where} will be made")
    if not where.is_dir():
        return Check("mountpoint", "failed", f"{where} is no folder.", "choose another mountpoint")
    if any(where.iterdir()):
        return Check(
            name="mountpoint",
            state="warning",
            said=f"{where} is not empty, and a drive hides what is in it.",
            remedy="empty it, or `cmsfs mount` and `cmsfs adopt`, or choose another mountpoint",
        )
    return Check("mountpoint", "ok", f"{where} is free")


def _read_ahead(settings: config.Settings) -> Check:
    """Check the kernel's read-ahead: with requests of a MiB, large files take a quarter of the processor
    time, but only root can set it."""
    mount = mounts.find(mounts.located(settings.mountpoint))
    if mount is None or not mount.is_drive:
        return Check("read-ahead", "skipped", "the drive is not mounted")
    found = mounts.read_ahead(mount.connection)
    if found is None or found >= mounts.READ_AHEAD_KIB:
        return Check("read-ahead", "ok", f"{found} KiB" if found else "as the kernel has it")
    return Check(
        name="read-ahead",
        state="ok",
        said=f"{found} KiB; large files are read faster with {mounts.READ_AHEAD_KIB}, until the next mount",
        remedy=mounts.read_ahead_remedy(mount.connection),
    )


def _covered(settings: config.Settings, where: Path) -> Check:
    daemon = daemonctl.find_account(settings.place)
    found = daemonctl.status(daemon).hidden if daemon is not None else None
    if found is not None and found.items:
        said = (
            f"{output.plural(found.items, 'item')} lie below the drive at {where}, saved while it was away."
        )
        return Check("mountpoint", "warning", said, "cmsfs adopt")
    return Check("mountpoint", "ok", f"a drive is mounted at {where}")


def _disk(settings: config.Settings) -> Check:
    said = []
    for what, folder in (("state", settings.paths.state), ("cache", settings.paths.cache)):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        found = os.statvfs(there)
        free = found.f_bavail * found.f_frsize
        if free < settings.keep_free_bytes:
            return Check(
                name="disk",
                state="warning",
                said=f"{output.size(free)} are free for the {what}, {there}: nothing is cached.",
                remedy="make room, or set keep_free_bytes lower",
            )
        if found.f_files and not found.f_favail:
            return Check("disk", "failed", f"{there} can have no more files (inodes).", "delete some files")
        said.append(f"{output.size(free)} free for the {what}")
    return Check("disk", "ok", ", ".join(said))


def _daemon(settings: config.Settings) -> Check:
    daemon = daemonctl.find_account(settings.place)
    if daemon is None:
        return Check("daemon", "skipped", "no drive of this account is mounted")
    if daemon.version != cmsfs.__version__:
        return Check(
            name="daemon",
            state="warning",
            said=f"The daemon is {daemon.version}, this command {cmsfs.__version__}.",
            remedy="cmsfs umount, then cmsfs mount",
        )
    found = daemonctl.status(daemon)
    if found.queue.held:
        return Check(
            name="daemon",
            state="warning",
            said=f"{output.plural(found.queue.held, 'change')} cannot be uploaded.",
            remedy="cmsfs conflicts",
        )
    if found.health.state not in ("online", "starting"):
        return Check(
            "daemon", "warning", f"It is {found.health.state}: {found.health.reason}", _online(found)
        )
    return Check("daemon", "ok", f"mounted at {daemon.mountpoint}, {found.health.state}")


def _online(found: control.DriveStatus) -> str:
    return "cmsfs login" if found.health.state == "unauthorised" else "look at the connection, below"


def _state(settings: config.Settings) -> Check:
    if not settings.paths.state.exists():
        return Check("local state", "skipped", "there is none yet")
    if daemonctl.find_account(settings.place) is not None:
        return Check(
            "local state", "skipped", "it is in use; `cmsfs fsck` checks it while the drive is not mounted"
        )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "daemon.fsck", "--account", settings.place, "--quick", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        findings = json.loads(done.stdout)["findings"]
    except (ValueError, KeyError):
        said = done.stderr.strip().removeprefix("cmsfs: ") or "It could not be checked."
        return Check("local state", "failed", said, "cmsfs fsck")
    if findings:
        said = f"{output.plural(len(findings), 'finding')}, the first: {findings[0]['text']}"
        return Check("local state", "failed", said, "cmsfs fsck --repair")
    return Check("local state", "ok", "tree, changes, drafts and cache agree")
