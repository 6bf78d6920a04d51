"""`cmsfs setup`, and `cmsfs` alone on a terminal while no account is set up: from nothing to an open folder.

Asks which service, who, where, and whether at every login; the answers go to `login`, `mount` and `demo`.

Rule: what is refused is told and asked again; interrupted, it leaves what was completed.
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
    """Have the account log in; whether the demo is wanted instead."""
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
    """Mount the drive where the person says; where."""
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
    """Whether a command worked; if not, why is told."""
    try:
        call.invoke(command, **words)
    except (errors.CmsfsError, ExceptionGroup) as error:
        if not user_messages.is_told(error):
            raise
        output.complain(user_messages.explain(error).message)
        return False
    return True
