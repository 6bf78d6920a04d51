"""`cmsfs setup`, and `cmsfs` alone on a terminal while no account is set up: from nothing to an open folder.

Asks for the service, the user, the mountpoint, and whether to mount at every login; runs `login`, `mount` and
`demo`.

Rule: a failed step is reported and asked again; an interrupted setup leaves the completed steps in place.
"""

from pathlib import Path

import click

from cmsfs import config, errors, mounts, output, process_env, user_messages
from cmsfs.cli.commands.account import login
from cmsfs.cli.commands.drive import drive
from cmsfs.cli.desktop import opener
from cmsfs.cli.mount import units
from cmsfs.cli.support import config_file, context

DEMO = "demo"


@click.command()
@click.pass_context
def setup(call: click.Context) -> None:
    """Set up the drive step by step: which service, who you are, where to mount it, and when."""
    ctx = call.find_object(context.Context)
    assert ctx is not None
    account = ctx.account or config.default_account()
    output.note("This sets up a drive; Ctrl-C ends it.\n")
    is_demo = _log_in(call)
    where = _mount(call, account, is_demo=is_demo)
    output.say(f"\nYour files are in {where}. `cmsfs status` tells how things stand.")
    if process_env.variable("DISPLAY") or process_env.variable("WAYLAND_DISPLAY"):
        opener.hand_over(str(where))


def _log_in(call: click.Context) -> bool:
    """Log in; returns whether the user wants the demo instead."""
    while True:
        service = _ask(
            "Address of the service (https://..., or box); demo tries it without an account", default=DEMO
        )
        if service == DEMO:
            return True
        named = _ask("JSON file of the OAuth application (empty: type its client ID)", default="")
        if _is_done(call, login.login, service=service, app=_path(named) if named else None):
            return False


def _mount(call: click.Context, account: str, *, is_demo: bool) -> Path:
    """Ask for the mountpoint and mount the drive; return the mountpoint."""
    while True:
        settings = config.load(account)
        where = _path(_ask("Folder for the drive", default=str(settings.mountpoint)))
        if is_demo:
            if _is_done(call, drive.demo, mountpoint=where):
                return where
            continue
        if mounts.located(where) != mounts.located(settings.mountpoint):
            config_file.update(account, {"mountpoint": str(where)})
            settings = config.load(account)
        at_login = not units.refusal(settings, mounts.located(where))
        at_login = at_login and click.confirm("Mount it at every login?", default=True, err=True)
        if _is_done(call, drive.mount, enable=at_login):
            return where


def _ask(question: str, *, default: str) -> str:
    return str(click.prompt(question, default=default, show_default=bool(default), err=True)).strip()


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _is_done(call: click.Context, command: click.Command, **words: object) -> bool:
    """Run a command; whether it succeeded.  Prints the error if not."""
    try:
        call.invoke(command, **words)
    except (errors.CmsfsError, ExceptionGroup) as error:
        if not user_messages.is_told(error):
            raise
        output.complain(user_messages.explain(error).message)
        return False
    return True
