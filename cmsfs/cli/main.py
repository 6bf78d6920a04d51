"""The click group `cmsfs` and its entry point.

`main` is the only place where an exception becomes a message on standard error and an exit code
(`user_messages.explain`); everywhere else in the command line exceptions propagate.

Exit codes: 1 other failure, 2 invalid command line or configuration, 3 unusable mountpoint, 4 FUSE
unavailable, 5 service unreachable, 6 credentials rejected, 7 changes rejected by the service and held, 130
interrupted.

Rule: a command parses nothing and prints through `output`; no traceback unless `CMSFS_DEBUG` is set.
"""

import difflib
import gc
import importlib
import os
import sys
from collections.abc import Sequence

import click

import cmsfs
from cmsfs import output, process_env, user_messages
from cmsfs.cli import examples
from cmsfs.cli.support import context
from cmsfs.cli.support.command_table import ALIASES, COMMANDS, FUNCTIONS, GROUPS


class Commands(click.Group):
    """Imports a command's module when it is called: `cmsfs status` need not wait for the HTTP libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if (entry := COMMANDS.get(cmd_name)) is None:
            return None
        module = importlib.import_module(f"cmsfs.cli.commands.{entry.module}")
        command = getattr(module, FUNCTIONS.get(cmd_name, cmd_name.replace("-", "_")))
        gc.enable()
        assert isinstance(command, click.Command)
        command.short_help = entry.summary
        command.epilog = examples.epilog(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], [*COMMANDS, *ALIASES], n=1)
            if near and error.message.endswith("."):
                raise click.UsageError(f"{error.message[:-1]}; did you mean {near[0]}?", ctx=ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table, without importing the modules.
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, entry.summary) for name, entry in commands.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(cmsfs.__version__, prog_name="cmsfs")
@click.option("--account", metavar="NAME", help="The account to use (default: the configuration's).")
@click.pass_context
def cli(ctx: click.Context, account: str | None) -> None:
    """Mount a cloud content-management service as a folder, and work with it.

    `cmsfs setup` leads through it, `cmsfs demo` mounts a sample enterprise on the built-in service.
    """
    ctx.obj = context.Context(account)
    context.account_in_use.set(account)


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line; print the error of a failure; return the exit code."""
    if args is None and len(sys.argv) == 1 and _is_first_time():
        args = ["setup"]
    try:
        return cli.main(args=args, prog_name="cmsfs", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1  # click, when standard output is closed
    except BaseException as error:
        if os.environ.get("CMSFS_DEBUG"):
            raise
        if user_messages.is_broken_pipe(error):
            # `cmsfs get x - | head`: the reader has gone, so even Python's final flush would fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        told, hint = user_messages.explain(error), ""
        if user_messages.is_missing(error):
            from cmsfs.cli.support import not_offered  # the libraries of the client

            hint = not_offered.hint(context.account_in_use.get())
        output.complain(f"{told.message}{hint}")
        return told.exit_code


def _is_first_time() -> bool:
    """Whether this is an interactive terminal and no service is configured yet."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from cmsfs import config, errors

    try:
        return not config.load().names_service
    except errors.ConfigError:
        return False


def main() -> None:
    """The entry point of the `cmsfs` script."""
    # Imports create no garbage worth collecting.
    gc.disable()
    process_env.load_less()
    process_env.keep_to_itself()  # many commands have a token in memory
    sys.exit(run())
