"""`cmsfs pause`, `resume`, `log-level`: control a running drive.

Rule: each is idempotent and takes effect at once.
"""

from typing import Literal

import click

from cmsfs import output
from cmsfs.cli.support import context, daemonctl, durations
from cmsfs.ipc import control


@click.command()
@click.option(
    "--for",
    "seconds",
    type=durations.Duration(),
    metavar="TIME",
    help="Resume automatically after 30m, 1h, 2d.",
)
@context.pass_context
def pause(ctx: context.Context, seconds: float | None) -> None:
    """Pause sync: transfer only what a program is waiting for.

    Changes are queued and uploaded after the pause; a pause survives a restart.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(daemon, control.Pause(seconds=seconds))
    output.say(f"Paused. {daemonctl.status(daemon).health.reason}".rstrip())


@click.command()
@context.pass_context
def resume(ctx: context.Context) -> None:
    """Resume sync after a pause."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(daemon, control.Resume())
    output.say("Sync resumed.")


@click.command("log-level")
@click.argument("level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False))
@context.pass_context
def log_level(ctx: context.Context, level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]) -> None:
    """Change the log level of the running daemon, until it exits."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(daemon, control.SetLogLevel(level=level))
    output.say(f"Log level set to {level}.")
