"""What a running drive is told: pause, resume, log-level.

Rule: each may be repeated; the daemon does it at once.
"""

import re
from typing import Literal

import click

from cmsfs.cli import context, daemonctl, output
from cmsfs.models import control

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """90, 90s, 30m, 1h, 1h30m, 2d: seconds."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if re.fullmatch(r"\d+(\.\d+)?", value):
            value += "s"
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", value)
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if "".join(number + unit for number, unit in parts) != value or not seconds:
            self.fail(f"{value!r} is no time; say for example 90s, 30m, 1h30m or 2d.", param, ctx)
        return seconds


@click.command()
@click.option("--for", "seconds", type=Duration(), metavar="TIME", help="Go on by itself after 30m, 1h, 2d.")
@context.pass_context
def pause(ctx: context.Context, seconds: float | None) -> None:
    """Send and fetch nothing but what a program waits for.

    Changes are kept and go when the pause ends; a pause outlives a restart.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(daemon, control.Pause(seconds=seconds))
    output.say(f"Paused. {daemonctl.status(daemon).health.reason}".rstrip())


@click.command()
@context.pass_context
def resume(ctx: context.Context) -> None:
    """End a pause."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(daemon, control.Resume())
    output.say("It goes on.")


@click.command("log-level")
@click.argument("level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False))
@context.pass_context
def log_level(ctx: context.Context, level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]) -> None:
    """Have the daemon log more or less, until it ends."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(daemon, control.SetLogLevel(level=level))
    output.say(f"The daemon logs {level} and above.")
