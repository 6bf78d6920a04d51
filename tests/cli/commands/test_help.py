"""What `cmsfs --help` shows first."""

import re
import shlex
import subprocess
import sys

import click

from cmsfs.cli import examples, main
from cmsfs.cli.support import command_table


def test_help_lists_every_command_once_in_its_group(capsys):
    assert main.run(["--help"]) == 0
    sections = re.split(r"^(\S.*):$", capsys.readouterr().out, flags=re.M)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    groups = ["Drive", "Files", "Sync", "Account", "Maintenance", "Administration"]
    assert [name for name in found if name != "Options"] == groups
    listed = [name for group in groups for name in re.findall(r"^  ([a-z-]+) ", found[group], re.M)]
    assert sorted(listed) == sorted(command_table.COMMANDS)


def test_a_summary_is_one_line_of_the_help(capsys):
    assert main.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, entry in command_table.COMMANDS.items():
        assert re.match(r"[A-Z]", entry.summary)
        assert not entry.summary.endswith("."), name
        assert any(re.fullmatch(rf"  {name} +{re.escape(entry.summary)}", line) for line in lines), name


def test_completion_and_manual_have_the_same_summary():
    with click.Context(main.cli) as context:
        for name, entry in command_table.COMMANDS.items():
            command = main.cli.get_command(context, name)
            assert command is not None
            assert command.get_short_help_str(200) == entry.summary


def test_help_loads_no_command():
    script = (
        "import sys; from cmsfs.cli import main; main.run(['--help']);"
        " loaded = ('httpx', 'cmsfs.cli.commands.drive.drive', 'cmsfs.auth.connect');"
        " sys.exit(any(name in sys.modules for name in loaded))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_has_examples_that_it_understands():
    assert set(examples.EXAMPLES) == set(command_table.COMMANDS)
    for name, lines in examples.EXAMPLES.items():
        for line in lines:
            words = shlex.split(line, comments=True)
            assert words.pop(0) == "cmsfs"
            command, words = _parsed(main.cli, words)
            assert command == name, line
            with click.Context(main.cli) as above:
                called = main.cli.get_command(above, command)
                if isinstance(called, click.Group):
                    command, words = _parsed(called, words)
                    called = called.get_command(click.Context(called, parent=above), command)
                ctx = click.Context(called, parent=above)
                given, rest, _ = called.make_parser(ctx).parse_args(args=words)
            assert rest == [], line
            for param in called.params:
                if isinstance(param, click.Argument) and param.required:
                    assert given.get(param.name), line
                elif isinstance(param.type, click.Choice) and isinstance(given.get(param.name), str):
                    assert given[param.name] in param.type.choices, line


def _parsed(group, words):
    """The command of the group that is called, and its words."""
    ctx = click.Context(group)
    _, rest, _ = group.make_parser(ctx).parse_args(args=words)
    return rest[0], rest[1:]


def test_help_and_manual_show_the_examples(capsys):
    assert main.run(["pin", "--help"]) == 0
    assert "Examples:\n    cmsfs pin ~/cmsfs/Projects\n" in capsys.readouterr().out
