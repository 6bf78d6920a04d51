"""`cmsfsd`: the daemon in the foreground, as systemd and `cmsfs mount` start it.

Rule: a failure is reported as one sentence and an exit code, to the launcher and to the log.
"""

import functools
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import trio

import cmsfs
from cmsfs import (
    config,
    crashpoints,
    durability,
    errors,
    logs,
    process_env,
    sd_notify,
    user_messages,
)
from cmsfs.ipc import ready as ipc_ready
from daemon import app, unsent_changes, upgrade
from daemon.core.replaced_files import ReplacedFiles
from daemon.survival import holder, spare, survival

# How long a thread waits before it requests the GIL: the event loop and the database writer switch many times
# for each page of a listing.  The default is 5 ms.
SWITCH_SECONDS = 0.0005

log = logging.getLogger(__name__)


class Starter:
    """The launcher that waits for READY or for the error message."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def ready(self, note: str) -> None:
        self._tell(ipc_ready.ready_line(note))

    def failed(self, told: errors.UserError) -> None:
        self._tell(ipc_ready.error_line(told.message, told.exit_code))
        sd_notify.notify(STATUS=told.message)

    def _tell(self, line: str) -> None:
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.write(fd, line.encode())
        except OSError:
            pass  # the launcher has exited
        finally:
            os.close(fd)


def _writable(_: click.Context, option: click.Parameter, fd: int | None) -> int | None:
    """Check that the descriptor is writable and make it non-inheritable."""
    if fd is not None:
        try:
            os.write(fd, b"")
            os.set_inheritable(fd, False)
        except OSError as error:
            raise click.BadParameter(f"{fd} is no open descriptor: {error.strerror}.", param=option) from None
    return fd


def _print_unsent(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print changes that were never uploaded, and exit."""
    if wanted:
        for line in unsent_changes.report(config.states()):
            click.echo(line)
        ctx.exit()


@click.command()
@click.option("--account", help="The account to mount (default: the configuration's).")
@click.option("--profile", help="How the service is reached (default: the configuration's).")
@click.option("--mountpoint", type=Path, help="Where to mount (default: the configuration's).")
@click.option("--folder", help="The service's folder to mount as the drive's root.")
@click.option("--read-only", is_flag=True, help="With a token that can only read.")
@click.option("--ttl", "ttl_seconds", type=float, metavar="SECONDS", help="Expire after this time.")
@click.option("--sample", is_flag=True, help="Create the sample enterprise in the embedded service.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Log format.")
@click.option(
    "--ready-fd",
    type=int,
    callback=_writable,
    help="File descriptor that receives READY, or ERROR and the reason.",
)
@click.option("--take-over", type=int, help="File descriptor by which a running drive is handed over.")
@click.option("--detached", is_flag=True, help="Nobody waits for this process: an upgrade may start another.")
@click.option(
    "--unsent",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_unsent,
    help="Show which accounts have changes that were never uploaded, and exit.",
)
@click.version_option(cmsfs.__version__)
def main(
    account: str | None,
    profile: str | None,
    mountpoint: Path | None,
    *,
    folder: str | None,
    read_only: bool,
    ttl_seconds: float | None,
    sample: bool,
    log_format: str | None,
    ready_fd: int | None,
    take_over: int | None,
    detached: bool,
) -> None:
    """Serve the drive of an account until SIGTERM, SIGINT or an unmount."""
    starter = Starter(ready_fd)
    given: upgrade.Handover | None = None
    kept = sd_notify.stored_fds()
    files, next_daemon = ReplacedFiles(), None
    if spare.is_wanted():
        next_daemon, left_behind = spare.fork(functools.partial(_make_way, files))
        if left_behind:
            # This is the spare, long after; the process that these options were for is dead.
            starter, take_over, kept = Starter(None), None, left_behind
    try:
        settings = config.load(
            account,
            profile=profile,
            mountpoint=mountpoint,
            folder=folder,
            read_only=read_only or None,
            ttl_seconds=ttl_seconds,
        )
        if not sample:
            config.require_service(settings)
        if (
            settings.keep_mounted
            and take_over is None
            and not sd_notify.is_enabled()
            and survival.is_supported()
        ):
            settings.paths.ensure()
            survival.become_holder(settings.paths.notify, ready_fd)
        process_env.leave_no_core()
        logs.configure(settings.log_level, form=log_format or settings.log_format)
        crashpoints.arm(config.crash_plan())
        if take_over is not None:
            given = upgrade.receive(take_over)
        if next_daemon is not None:
            # Not before the drive is ours: the version before keeps its own until then.
            next_daemon.leave()
        if take_over is None and holder.CONNECTION in kept:
            given = upgrade.recover(kept)
        run = functools.partial(
            app.run,
            settings,
            given=given,
            mountpoint=settings.mountpoint,
            # A folder named on the command line must exist: a typo would create one.
            create=mountpoint is None,
            sample=sample,
            ready=starter.ready,
        )
        files.guard()
        durability.raise_open_file_limit()
        durability.keep_spare()
        sys.setswitchinterval(SWITCH_SECONDS)
        left = trio.run(run)
        if left is not None:
            upgrade.hand_over(left, sys.argv[1:])
    except Exception as error:
        if take_over is not None and given is None and upgrade.is_negotiated(take_over):
            upgrade.refuse(take_over, user_messages.explain(error).message)
        elif (take_over is not None or holder.CONNECTION in kept) and _needs_restart(given, error):
            survival.drop_descriptors()
            log.exception("the drive cannot be taken over; it is mounted anew")
            upgrade.restart(sys.argv[1:])
        told = user_messages.explain(error)
        if _is_bug(error):
            log.exception("exiting after an unexpected error")
        starter.failed(told)
        click.echo(f"cmsfsd: {told.message}", err=True)
        sys.exit(told.exit_code)


def _make_way(files: ReplacedFiles, left_behind: Mapping[str, int]) -> None:
    """In a spare whose turn has come: execute the version that was installed meanwhile, if there is one."""
    if files.installed() not in ("", "none"):
        upgrade.restart(sys.argv[1:], left_behind)


def _needs_restart(given: upgrade.Handover | None, error: Exception) -> bool:
    """Whether the take-over failed with the drive still mounted and not served."""
    was_unmounted = isinstance(error, errors.UserError) and not error.exit_code
    return not was_unmounted and (given is None or not given.is_served)


def _is_bug(error: Exception) -> bool:
    """Whether it is, or contains, an error other than those we report to users."""
    expected = (errors.CmsfsError, OSError)
    if isinstance(error, ExceptionGroup):
        return error.split(expected)[1] is not None
    return not isinstance(error, expected)
