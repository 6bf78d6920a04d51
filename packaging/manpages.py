"""Manual pages from what `--help` shows and from what the settings say of themselves.

`pages()` gives every page as a name and its text: `cmsfs(1)`, one for each command and command of a command
(`cmsfs-token-downscope(1)`), `cmsfsd(8)`, `mount.cmsfs(8)` and `cmsfs.toml(5)`.  Nothing is written twice: a
command's page is made of its docstring and options, a setting's entry of its description in `cmsfs.config`.
"""

import inspect
import os
import re
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime

import click

import cmsfs
from cmsfs.cli import main
from cmsfs.cli.mount import mount_helper
from cmsfs.config import descriptions
from daemon import command as daemon_program

EXIT_CODES = [
    ("0", "Success."),
    ("1", "Failure; a message on standard error says what went wrong."),
    ("2", "Invalid command line or configuration."),
    ("3", "The mountpoint cannot be used."),
    ("4", "FUSE is not available on this machine."),
    ("5", "The service cannot be reached."),
    ("6", "The service rejects the credentials."),
    ("7", "The service rejects changes, which are kept; see cmsfs-conflicts(1)."),
    ("8", "The drive of this account is already running."),
    ("130", "Interrupted."),
]

FILES = [
    ("~/.config/cmsfs/config.toml", "The configuration, cmsfs.toml(5)."),
    ("~/.local/state/cmsfs/ACCOUNT/", "The tree, pending changes and the log. Do not delete it."),
    ("~/.cache/cmsfs/ACCOUNT/", "The cache; may be deleted while the drive is not mounted."),
    ("~/.local/share/cmsfs/service/", "The data of the built-in service."),
    ("$XDG_RUNTIME_DIR/cmsfs/ACCOUNT.sock", "The control socket of the daemon."),
]


def pages() -> Iterator[tuple[str, str]]:
    """`(name, text)` of every page, `name` as it is installed: `cmsfs-mount.1`."""
    top = click.Context(main.cli, info_name="cmsfs")
    yield from _command_pages(main.cli, top)
    daemon = click.Context(daemon_program.main, info_name="cmsfsd")
    yield "cmsfsd.8", _command_page(daemon_program.main, daemon, section=8)
    yield "cmsfs.toml.5", settings_page()
    yield "mount.cmsfs.8", helper_page()
    yield "mount.fuse.cmsfs.8", helper_page()


def _command_pages(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    yield f"{ctx.command_path.replace(' ', '-')}.1", _command_page(command, ctx, section=1)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None and not below.hidden:
                yield from _command_pages(below, click.Context(below, info_name=name, parent=ctx))


def _command_page(command: click.Command, ctx: click.Context, *, section: int) -> str:
    name = ctx.command_path.replace(" ", "-")
    body = inspect.cleandoc(command.help or "").split("\f")[0].strip()
    paragraphs = re.split(r"\n\s*\n", body)
    lines = [_head(name, section), _name(name, paragraphs[0])]
    usage = " ".join(command.collect_usage_pieces(ctx))
    lines += [".SH SYNOPSIS", f".B {escaped(ctx.command_path)}", escaped(usage)]
    lines += [".SH DESCRIPTION", *_paragraphs(paragraphs)]
    if options := [record for param in command.get_params(ctx) if (record := param.get_help_record(ctx))]:
        lines += [".SH OPTIONS", *_entries(options)]
    if isinstance(command, click.Group):
        found = [(key, command.get_command(ctx, key)) for key in command.list_commands(ctx)]
        known = [(f"{name}-{key}(1)", each.get_short_help_str(200)) for key, each in found if each]
        lines += [".SH COMMANDS", *_entries(known)]
    if command.epilog:
        lines += [".SH EXAMPLES", ".nf", *(escaped(line) for line in _examples(command.epilog)), ".fi"]
    if section == 8 or ctx.parent is None:
        lines += [".SH FILES", *_entries(FILES)]
    lines += [".SH EXIT STATUS", *_entries(EXIT_CODES)]
    others = [page for page in ("cmsfs(1)", "cmsfsd(8)", "cmsfs.toml(5)") if page != f"{name}({section})"]
    if ctx.parent is not None and ctx.parent.parent is not None:
        others.insert(0, f"{ctx.parent.command_path.replace(' ', '-')}(1)")
    return _text([*lines, ".SH SEE ALSO", escaped(", ".join(others))])


def _examples(epilog: str) -> list[str]:
    """The lines below the heading."""
    return [line.strip() for line in epilog.splitlines() if line.startswith("  ")]


def settings_page() -> str:
    """`cmsfs.toml(5)`: every key with its type, its default and the reason."""
    lines = [_head("cmsfs.toml", 5), _name("cmsfs.toml", "Configuration of the cmsfs drive.")]
    lines += [".SH SYNOPSIS", escaped("~/.config/cmsfs/config.toml")]
    lines += [
        ".SH DESCRIPTION",
        *_paragraphs(
            [
                "A file in TOML. Its top level is the account `default`; a table `[accounts.NAME]` is "
                "another, which inherits from the top level. `cmsfs --account NAME` "
                "chooses one, and so does the key `account` at the top.",
                "Environment variables override keys: CMSFS_POLL_SECONDS=1 overrides "
                "`poll_seconds`. CMSFS_CONFIG names another file.",
            ]
        ),
        ".SH KEYS",
    ]
    for one in descriptions.everything():
        if one.section:
            lines.append(f".SS {escaped(one.section)}")
        kind = f"{one.kind}, {one.unit}" if one.unit else one.kind
        lines.append(".TP")
        lines.append(f'.BR {escaped(one.name)} " ({escaped(kind)}; default: {escaped(one.shown_default)})"')
        old = f" Its old name, which is still read: {', '.join(one.old_names)}." if one.old_names else ""
        lines.append(_line(one.text + old))
    return _text([*lines, ".SH SEE ALSO", "cmsfs(1), cmsfsd(8)"])


def helper_page() -> str:
    """`mount.cmsfs(8)`, what fstab(5) and mount(8) take."""
    usage, _, options = mount_helper.USAGE.removeprefix("usage: mount.cmsfs ").partition("[")
    lines = [_head("mount.cmsfs", 8), _name("mount.cmsfs", "Mounts the drive of an account for mount(8).")]
    lines += [".SH SYNOPSIS", ".B mount \\-t fuse.cmsfs", escaped(f"[{options} {usage}".strip())]
    lines += [
        ".SH DESCRIPTION",
        *_paragraphs(
            [
                "The program that mount(8) starts for the type `fuse.cmsfs`, also from fstab(5). ACCOUNT is"
                " an account of the configuration, cmsfs.toml(5), and FOLDER where its drive is mounted.",
                "`umount` unmounts it after pending changes were uploaded, as `cmsfs umount` does.",
            ]
        ),
        ".SH OPTIONS",
        *_entries(
            [
                ("setuid=USER", "Run the drive as this user, with the configuration in their home folder."),
                ("config=FILE", "Another configuration file."),
                ("ro", "Mount with a token that can only read."),
                (
                    "KEY=VALUE, KEY, noKEY",
                    "Every setting of cmsfs.toml(5) under its own name, such as `nocrawl`.",
                ),
            ]
        ),
        ".SH EXIT STATUS",
        *_entries([("0", "Success."), ("1", "The command line is wrong."), ("32", "The mount failed.")]),
        ".SH EXAMPLES",
        ".nf",
        escaped("default  /home/ada/cmsfs  fuse.cmsfs  noauto,x-systemd.automount,_netdev,setuid=ada  0  0"),
        ".fi",
    ]
    return _text([*lines, ".SH SEE ALSO", "cmsfs(1), cmsfsd(8), cmsfs.toml(5), mount(8), fstab(5)"])


# ---- groff ----


def escaped(text: str) -> str:
    """Text as groff takes it literally: backslashes, dashes of options, quotes, leading dots."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    text = text.replace("`", "\\(ga").replace('"', "\\(dq")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def _line(text: str) -> str:
    """A paragraph on source lines of its own sentences, code in bold."""
    text = " ".join(text.split())
    parts = re.split(r"`([^`]+)`", text)
    marked = "".join(
        escaped(part) if at % 2 == 0 else f"\\fB{escaped(part)}\\fR" for at, part in enumerate(parts)
    )
    return "\n".join(re.sub(r"^([.'])", r"\\&\1", line) for line in re.split(r"(?<=[a-z)R][.!?;]) +", marked))


def _paragraphs(paragraphs: list[str]) -> list[str]:
    lines: list[str] = []
    for at, paragraph in enumerate(paragraphs):
        kept = paragraph.lstrip().startswith("\b")
        if at:
            lines.append(".PP")
        if kept:
            rows = [row for row in paragraph.replace("\b", "").splitlines() if row.strip()]
            lines += [".nf", *(escaped(row) for row in textwrap.dedent("\n".join(rows)).splitlines()), ".fi"]
        else:
            lines.append(_line(paragraph))
    return lines


def _entries(entries: list[tuple[str, str]]) -> list[str]:
    lines = []
    for term, text in entries:
        lines += [".TP", f".B {escaped(term)}", _line(text) if text.strip() else "\\&"]
    return lines


def _head(name: str, section: int) -> str:
    return f'.TH {name.upper()} {section} "{_date()}" "cmsfs {cmsfs.__version__}" "cmsfs"'


def _date() -> str:
    """The day of what is built, so that the same source gives the same pages."""
    at = os.environ.get("SOURCE_DATE_EPOCH", "")
    return (datetime.fromtimestamp(int(at), UTC) if at.isdigit() else datetime.now(UTC)).strftime("%Y-%m-%d")


def _name(name: str, text: str) -> str:
    first = re.split(r"(?<=[.!?])\s", " ".join(text.split()))[0].rstrip(".")
    first = re.sub(r"`", "", first)
    return f".SH NAME\n{escaped(name)} \\- {escaped(first[:1].lower() + first[1:])}"


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
