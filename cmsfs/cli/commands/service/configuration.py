"""`cmsfs config`: shows, checks and edits the configuration file.

Rule: `edit` saves a valid file, or leaves the old one unchanged.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from cmsfs import config as cmsfs_config
from cmsfs import errors, output, process_env
from cmsfs.cli.support import config_file, context, daemonctl
from cmsfs.config import descriptions

_EDITORS = ("sensible-editor", "editor", "nano", "vi")


def _complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in cmsfs_config.Settings.model_fields if name.startswith(incomplete)]


@click.group()
def config() -> None:
    """Show, edit and check the configuration file."""


@config.command("path")
def path() -> None:
    """Print the path of the file."""
    output.say(str(cmsfs_config.config_file()))


@config.command("show")
@click.argument("key", required=False, shell_complete=_complete_key)
@click.option("--all", "everything", is_flag=True, help="Include settings that have their default.")
@output.json_option
@context.pass_context
def show(ctx: context.Context, key: str | None, *, everything: bool, as_json: bool) -> None:
    """Show the settings of the account and where each comes from; with KEY, what that one means."""
    settings = ctx.settings()
    if key is not None:
        _show_one(settings, key, as_json=as_json)
        return
    origins = cmsfs_config.origins(settings.account)
    values = settings.model_dump(mode="json")
    chosen = {key: value for key, value in values.items() if everything or key in origins or key == "account"}
    if as_json:
        found = {key: {"value": value, "from": origins.get(key, "default")} for key, value in chosen.items()}
        output.document(found)
        return
    rows = [[key, _format_value(value), origins.get(key, "default")] for key, value in chosen.items()]
    output.table(rows)


def _show_one(settings: cmsfs_config.Settings, key: str, *, as_json: bool) -> None:
    key = _setting_name(key)
    about = descriptions.describe(key)
    value = settings.model_dump(mode="json")[key]
    origin = cmsfs_config.origins(settings.account).get(key, "default")
    if as_json:
        found = {"value": value, "from": origin, "description": about.text, "type": about.kind}
        output.document({key: found | {"unit": about.unit, "old_names": list(about.old_names)}})
        return
    output.table([[key, _format_value(value), origin]])
    output.say(about.text)
    rows = [["type", about.kind], ["unit", about.unit], ["default", about.shown_default]]
    rows.append(["old names", " ".join(about.old_names)])
    output.table([row for row in rows if row[1]])


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "-" if value in (None, "") else str(value)


@config.command("get")
@click.argument("key", shell_complete=_complete_key)
@context.pass_context
def get(ctx: context.Context, key: str) -> None:
    """Print the value of a setting."""
    output.say(_format_value(ctx.settings().model_dump(mode="json")[_setting_name(key)]))


@config.command("set")
@click.argument("key", shell_complete=_complete_key)
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@context.pass_context
def set_(ctx: context.Context, key: str, values: tuple[str, ...]) -> None:
    """Set a setting of the account in the file, which keeps its comments; a list takes several VALUEs.

    `cmsfs config set account NAME` chooses the account that is meant when none is named.
    """
    key = _setting_name(key)
    account = ctx.account or cmsfs_config.default_account()
    given = " ".join(values)
    found = cmsfs_config.checked({key: given})[key]
    if isinstance(found, list):
        raise errors.UserError(f"{key} is a list of tables; `cmsfs config edit` changes it.", exit_code=2)
    value = list(found) if isinstance(found, tuple) else given if isinstance(found, Path) else found
    _store(account, key, value)


@config.command("unset")
@click.argument("key", shell_complete=_complete_key)
@context.pass_context
def unset(ctx: context.Context, key: str) -> None:
    """Remove a setting of the account from the file."""
    _store(ctx.account or cmsfs_config.default_account(), _setting_name(key), None)


def _store(account: str, key: str, value: config_file.Value) -> None:
    where = config_file.update(None if key == "account" else account, {key: value})
    now = cmsfs_config.load(None if key == "account" else account).model_dump(mode="json")[key]
    whose = "" if key == "account" else f" for account {account}"
    output.say(f"{key} is {_format_value(now)}{whose}, in {where}.")
    if daemonctl.find_account(account):
        output.note("The mounted drive uses it from the next mount on.")


def _setting_name(key: str) -> str:
    key = cmsfs_config.OLD_NAMES.get(key, key)
    if key not in cmsfs_config.Settings.model_fields:
        near = cmsfs_config.hint(key, cmsfs_config.Settings.model_fields)
        raise errors.UserError(f"There is no setting {key}{near or '.'}", exit_code=2)
    return key


@config.command("check")
def check() -> None:
    """Check the file and the environment variables, and report every error."""
    where = cmsfs_config.config_file()
    try:
        text = where.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"{where} cannot be read: {error}.") from None
    found = [*config_file.problems(text), *cmsfs_config.unknown_variables()]
    for problem in found:
        output.complain(problem)
    if found:
        sys.exit(2)
    for renamed in [*config_file.old_names(text), *cmsfs_config.old_variables()]:
        output.note(renamed)
    output.say(f"{where} is valid." if text else f"There is no {where}; using the defaults.")


@config.command("edit")
def edit() -> None:
    """Open the file in an editor ($VISUAL, $EDITOR), and save the result if it is valid.

    A new file starts with every setting explained and commented out.
    """
    where = cmsfs_config.config_file()
    before = where.read_text(encoding="utf-8") if where.exists() else descriptions.example()
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
                raise errors.UserError("The file is not valid; nothing was changed.", exit_code=2)
    if text == before and where.exists():
        output.say("Nothing was changed.")
        return
    config_file.replace(where.resolve(), text)
    output.say(f"{where} saved; a mounted drive uses it from the next mount on.")


def _editor() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        if named := process_env.variable(variable):
            return shlex.split(named)
    found = next(filter(None, map(shutil.which, _EDITORS)), None)
    if found is None:
        raise errors.UserError("There is no editor; name one in $EDITOR.")
    return [found]
