"""`cmsfs demo`, `mount`, `umount`, `sync`.

These commands start a daemon (`launcher`) or ask a running one (`daemonctl`); none of them touches the
daemon's files or accesses the mount.

Rule: each is idempotent; if there is nothing to do, it says so, without an error.
"""

import os
import shlex
from pathlib import Path

import click

from cmsfs import config, errors, mountpoint_guard, mounts, output
from cmsfs.cli.mount import launcher, units
from cmsfs.cli.support import config_file, context, daemonctl, durations, passwords, progress
from cmsfs.ipc import control
from cmsfs.runtime import clock

# Exit code of `sync` and `umount` when the service rejected changes, which need the user's attention.
HELD = 7

# After its last message the daemon only closes databases.
EXIT_SECONDS = 20.0

# Not click.Path: that would access the folder, which blocks if the drive hangs.
_mountpoint = click.argument("mountpoint", required=False, type=Path)
_foreground = click.option("--foreground", is_flag=True, help="Stay in the foreground.")


@click.command()
@_mountpoint
@_foreground
@context.pass_context
def demo(ctx: context.Context, mountpoint: Path | None, *, foreground: bool) -> None:
    """Mount a sample drive on the built-in service (default: ~/cmsfs).

    The folder is created if necessary.  Your changes persist across `cmsfs umount` and the next `cmsfs demo`.
    """
    settings = config.load(ctx.account)  # the account need not exist yet
    if not config.profile(settings).embedded:
        if ctx.account:
            raise errors.ConfigError(f"The account {ctx.account!r} is not on the embedded service.")
        settings = config.load("demo", profile="embedded")
    mounted = _mount(settings, mountpoint, create=True, sample=True, foreground=foreground)
    where = shlex.quote(str(mounted))
    output.say(
        f"\nFive things to try:\n"
        f"  ls -R {where}\n"
        f"  {output.command()} search budget\n"
        f"  cp -a /usr/include/fuse3 {where}/ && {output.command()} sync\n"
        f"  {output.command()} status\n"
        f"  {output.command()} umount {where}"
    )


@click.command()
@click.argument("link", required=False)
@_mountpoint
@_foreground
@click.option("--password-file", type=passwords.FILE, help="The link's password: the first line; - is stdin.")
@click.option("--folder", metavar="REMOTE", help="Mount only this folder of the service.")
@click.option("--read-only", is_flag=True, help="With a token that can only read.")
@click.option("--ttl", type=durations.Duration(), help="Expire after this time: 45m, 8h, 2d.")
@click.option(
    "--systemd/--no-systemd",
    default=None,
    help="Run as the systemd user unit cmsfs@ACCOUNT (default: if possible).",
)
@click.option("--enable", is_flag=True, help="Also mount it at every login (implies --systemd).")
@context.pass_context
def mount(
    ctx: context.Context,
    link: str | None,
    mountpoint: Path | None,
    *,
    foreground: bool,
    password_file: str | None,
    folder: str | None,
    read_only: bool,
    ttl: float | None,
    systemd: bool | None,
    enable: bool,
) -> None:
    """Mount the drive of the configured account, or what a shared LINK shows (https://SERVICE/s/WORD).

    A link needs no account; its file or folder is mounted read-only unless the link allows changes, by
    default at a new folder of the home. If it has a password and no --password-file, you are asked for it.

    With --folder, --read-only or --ttl the drive uses a downscoped token that permits nothing else; it has
    its own local state and can be mounted alongside the full drive, on another folder.

    As a systemd unit it restarts after a failure and logs to the journal; `cmsfs umount` stops it, and
    `systemctl --user disable cmsfs@ACCOUNT` stops mounting it at login.
    """
    link, mountpoint = _link_and_folder(link, mountpoint)
    if (password_file is not None and link is None) or (folder is not None and link is not None):
        raise click.UsageError("--password-file goes only with a shared link, --folder only without one.")
    narrowed = folder is not None or read_only or ttl is not None
    if (enable or systemd) and (foreground or systemd is False or narrowed):
        raise click.UsageError(
            "--enable and --systemd cannot be combined with --foreground, --no-systemd, --folder, "
            "--read-only or --ttl."
        )
    if link is not None:
        from cmsfs.cli.mount import link_mount  # imported here: it imports the client

        account = link_mount.configured(ctx.account, link, password_file, mountpoint)
        settings = config.load(account, read_only=read_only or None, ttl_seconds=ttl)
    else:
        settings = ctx.settings(folder=folder, read_only=read_only or None, ttl_seconds=ttl)
    config.profile(settings)  # report an invalid profile here, not in the daemon's log
    if enable and mountpoint is not None:
        settings = _configure(settings, mountpoint)
    as_unit = not foreground and not narrowed and _as_unit(settings, mountpoint, wanted=enable or systemd)
    # A folder given here must exist, or a typo would create one; the configured one is created.
    _mount(
        settings, mountpoint, create=mountpoint is None, sample=False, foreground=foreground, as_unit=as_unit
    )
    if enable:
        units.enable(settings.account)
        output.say("It will be mounted at every login.")


def _link_and_folder(first: str | None, second: Path | None) -> tuple[str | None, Path | None]:
    """Return the link and the mountpoint.  A single argument may be either."""
    if first is not None and first.lower().startswith(("https://", "http://")):
        return first, second
    if second is not None:
        raise click.UsageError(f"{first} is no shared link, such as https://files.example.com/s/WORD.")
    return None, None if first is None else Path(first)


def mount_configured(ctx: context.Context) -> Path:
    """Mount the configured account's drive as `cmsfs mount` does; return the mountpoint.  Raises
    `UserError`."""
    settings = ctx.settings()
    config.profile(settings)
    as_unit = _as_unit(settings, None, wanted=None)
    return _mount(settings, None, create=True, sample=False, foreground=False, as_unit=as_unit)


def _configure(settings: config.Settings, named: Path) -> config.Settings:
    """Configure the account's unit to mount here, at every login; return the changed settings.

    Raises `UserError` if it cannot run as a unit at all.
    """
    if refusal := units.refusal(settings, mounts.located(settings.mountpoint)):
        raise errors.UserError(refusal, exit_code=2)
    config.require_service(settings)
    if mounts.located(named) == mounts.located(settings.mountpoint):
        return settings
    mounts.prepare(mounts.located(named), over=True)
    where = config_file.update(settings.account, {"mountpoint": str(named.absolute())})
    output.note(f"The mountpoint of account {settings.account} is {named.absolute()} now, in {where}.")
    return config.load(settings.account)


def _as_unit(settings: config.Settings, named: Path | None, *, wanted: bool | None) -> bool:
    """Whether to run the drive as a unit.  Raises `UserError` if that is wanted but impossible."""
    if wanted is False:
        return False
    refusal = units.refusal(settings, mounts.located(named or settings.mountpoint))
    if not wanted:
        return not refusal and units.is_installed()
    if refusal:
        raise errors.UserError(refusal, exit_code=2)
    if written := units.ensure():
        output.note(f"Installed the systemd unit {written}.")
    return True


def _mount(
    settings: config.Settings,
    named: Path | None,
    *,
    create: bool,
    sample: bool,
    foreground: bool,
    as_unit: bool = False,
) -> Path:
    """Start the daemon unless it is running; return the mountpoint."""
    mountpoint = mounts.located(named or settings.mountpoint)
    if daemon := daemonctl.find_mounted(settings.place):
        if daemon.mountpoint != mountpoint and named:
            raise errors.UserError(
                f"The account {daemon.account!r} is already mounted at {daemon.mountpoint}.",
                exit_code=mounts.BAD_MOUNTPOINT,
            )
        output.say(f"The drive is already mounted at {daemon.mountpoint}.")
        return daemon.mountpoint
    if other := daemonctl.find_mountpoint(mountpoint):
        raise errors.UserError(
            f"{mountpoint} is in use by the account {other.account!r}; name another folder.",
            exit_code=mounts.BAD_MOUNTPOINT,
        )
    # The daemon checks this, too; here nothing has been started yet that would have to be stopped.
    mounts.require_fuse()
    mounts.clean_stale(mountpoint)
    memo = settings.paths.mountpoint
    # A non-empty folder that is given for the first time is probably a typo; at its usual mountpoint the
    # drive is mounted over the files, and reports them as hidden.
    over = named is None or mountpoint_guard.is_known(memo, mountpoint)
    with launcher.folder(mountpoint, create=create):
        mounts.prepare(mountpoint, over=over)
        if not sample:
            config.require_service(settings)
        if over:
            mountpoint_guard.note(memo, mountpoint)
        if foreground:
            arguments = launcher.arguments(settings, mountpoint, sample=sample)
            os.execv(arguments[0], arguments)
        note = _start_unit(settings) if as_unit else launcher.start(settings, mountpoint, sample=sample)
    output.say(f"The drive is mounted at {mountpoint}.{' ' if note else ''}{note}")
    return mountpoint


def _start_unit(settings: config.Settings) -> str:
    """Start the drive's unit; return a message about it."""
    units.start(settings.account)
    daemon = daemonctl.find_account(settings.account)
    return daemonctl.status(daemon).health.reason if daemon else ""


@click.command()
@_mountpoint
@click.option("--force", is_flag=True, help="Unmount even if programs have files open.")
@click.option("--drain", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait this long for uploads.")
@click.option("--dead", is_flag=True, help="Only clean up a mount whose daemon has died.")
@context.pass_context
def umount(
    ctx: context.Context, mountpoint: Path | None, *, force: bool, drain: float | None, dead: bool
) -> None:
    """Upload pending changes, up to a time limit, and unmount the drive.

    Changes that are still pending are kept and uploaded after the next mount.
    """
    settings = ctx.settings()
    if dead:
        # The folder keeps its protective mode: a restarted daemon mounts on it and restores the mode.
        where = mounts.located(mountpoint or settings.mountpoint)
        if mounts.find(where) is not None and mounts.clean_stale(where):
            output.say(f"Removed the dead mount at {where}.")
        return
    if mountpoint is None:
        daemon = daemonctl.find_for(ctx.account, settings)
        where = daemon.mountpoint if daemon else mounts.located(settings.mountpoint)
    else:
        where = mounts.located(mountpoint)
        daemon = daemonctl.find_mountpoint(where)
    if daemon:
        _stop(daemon, force=force, drain=drain)
    else:
        _detach(where)
        if mountpoint_guard.is_known(settings.paths.mountpoint, where):
            mountpoint_guard.restore(settings.paths.mountpoint)


def _stop(daemon: daemonctl.Daemon, *, force: bool, drain: float | None) -> None:
    with progress.changes() as bar:
        done = _last(daemon, control.Stop(force=force, drain_seconds=drain), bar)
    if not daemonctl.await_exit(daemon, seconds=EXIT_SECONDS):
        raise errors.UserError(
            f"The drive is unmounted, but its daemon (process {daemon.pid}) is still running."
        )
    output.say(f"The drive at {daemon.mountpoint} is unmounted.")
    if done.pending:
        output.note(f"{output.plural(done.pending, 'change')} will be uploaded after the next mount.")
    if done.held:
        output.note(f"{output.plural(done.held, 'change')} cannot be uploaded; kept locally.")


def _detach(where: Path) -> None:
    """Remove a mount without a daemon that we can reach: it is dead, or uses other XDG folders than ours."""
    mount = mounts.find(where)
    if mount is None:
        output.say(f"Nothing is mounted at {where}.")
        return
    if not mount.is_drive:
        raise errors.UserError(
            f"{where} has another file system ({mount.fstype}) mounted on it.",
            exit_code=mounts.BAD_MOUNTPOINT,
        )
    mounts.detach(where)
    output.say(f"Removed the mount at {where}; it had no running daemon of yours.")


@click.command()
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up after this time.")
@click.option("--full", is_flag=True, help="Then compare the whole tree with the service.")
@output.json_option
@context.pass_context
def sync(ctx: context.Context, *, timeout: float | None, full: bool, as_json: bool) -> None:
    """Wait until all changes are uploaded.

    With --full, the drive is then compared with the service item by item, to catch changes without an event.
    """
    daemon = daemonctl.find_for(ctx.account, ctx.settings())
    if daemon is None:
        raise errors.UserError("No drive is mounted; `cmsfs mount` mounts one.")
    with progress.changes() as bar:
        done = _last(daemon, control.Sync(), bar, timeout=timeout)
        compared = _last(daemon, control.Poll(full=True), bar, timeout=timeout) if full else None
    if as_json:
        output.document(done.model_dump(include={"held", "pending"}))
    if done.held:
        held = [op for op in daemonctl.status(daemon).queue.ops if op.state == "held"]
        example = f", for example {held[0].path}: {held[0].error.rstrip('.')}" if held else ""
        raise errors.UserError(
            f"{output.plural(done.held, 'change')} cannot be uploaded{example}.", exit_code=HELD
        )
    if done.pending:
        output.note(done.message or f"{output.plural(done.pending, 'change')} arrived in the meantime.")
    elif not as_json:
        output.say("Everything is uploaded.")
    if done.message and not done.pending:
        output.note(done.message)
    if compared is not None and compared.message:
        output.note(compared.message)


def _last(
    daemon: daemonctl.Daemon,
    request: control.Sync | control.Poll | control.Stop,
    bar: progress.Changes,
    *,
    timeout: float | None = None,
) -> control.Done:
    """Show the progress of a request until it is done.  Raises `UserError`, also after `timeout`."""
    deadline = None if timeout is None else clock.monotonic() + timeout
    for answer in daemonctl.exchange(daemon.socket, request):
        match answer:
            case control.Done():
                return answer
            case control.Progress():
                bar.update(answer)
                if deadline is not None and clock.monotonic() >= deadline:
                    raise errors.UserError(
                        f"Not everything is uploaded after {timeout:g} s: "
                        f"{output.plural(answer.pending, 'change')} to go."
                    )
            case _:
                break
    raise errors.UserError("Unexpected response from the daemon.")
