"""`cmsfs config`: the configuration file shown, checked and edited.

Rule: `edit` leaves a file that holds, or the one that was there.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from cmsfs import config as settings_of
from cmsfs import environment, errors, output
from cmsfs.cli import config_file, context

_EDITORS = ("sensible-editor", "editor", "nano", "vi")


@click.group()
def config() -> None:
    """The configuration file: where it is, what holds, what is wrong with it."""


@config.command("path")
def path() -> None:
    """Print where the file is."""
    output.say(str(settings_of.config_file()))


@config.command("show")
@click.option("--all", "everything", is_flag=True, help="With what nobody has set.")
@output.json_option
@context.pass_context
def show(ctx: context.Context, *, everything: bool, as_json: bool) -> None:
    """Show what holds for the account, and where each setting comes from."""
    settings = ctx.settings()
    origins = settings_of.origins(settings.account)
    values = settings.model_dump(mode="json")
    chosen = {key: value for key, value in values.items() if everything or key in origins or key == "account"}
    if as_json:
        found = {key: {"value": value, "from": origins.get(key, "default")} for key, value in chosen.items()}
        output.document(found)
        return
    rows = [[key, _shown(value), origins.get(key, "default")] for key, value in chosen.items()]
    output.table(rows)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "-" if value in (None, "") else str(value)


@config.command("check")
def check() -> None:
    """Say what is wrong with the file and with the variables of the environment; all of it."""
    where = settings_of.config_file()
    try:
        text = where.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"{where} cannot be read: {error}.") from None
    found = [*config_file.problems(text), *settings_of.unknown_variables()]
    for problem in found:
        output.complain(problem)
    if found:
        sys.exit(2)
    output.say(f"{where} holds." if text else f"There is no {where}; the defaults hold.")


@config.command("edit")
def edit() -> None:
    """Open the file in an editor ($VISUAL, $EDITOR), and take what was written if it holds.

    A file that is not there yet begins with every setting and its reason, all commented out.
    """
    where = settings_of.config_file()
    before = where.read_text(encoding="utf-8") if where.exists() else config_file.example()
    with tempfile.TemporaryDirectory(prefix="cmsfs-config-") as folder:
        draft = Path(folder) / "config.toml"
        draft.write_text(before, encoding="utf-8")
        while True:
            if subprocess.run([*_editor(), str(draft)], check=False).returncode:
                raise errors.UserError("The editor failed; nothing was changed.")
            text = draft.read_text(encoding="utf-8")
            found = config_file.problems(text)
            if not found:
                break
            for problem in found:
                output.complain(problem)
            if not sys.stdin.isatty() or not click.confirm("Edit it again?", default=True, err=True):
                raise errors.UserError("The file does not hold; nothing was changed.", exit_code=2)
    if text == before and where.exists():
        output.say("Nothing was changed.")
        return
    config_file.replace(where.resolve(), text)
    output.say(f"{where} is changed; a drive that is mounted takes it with the next mount.")


def _editor() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        if named := environment.variable(variable):
            return shlex.split(named)
    found = next(filter(None, map(shutil.which, _EDITORS)), None)
    if found is None:
        raise errors.UserError("There is no editor; name one in $EDITOR.")
    return [found]
