"""What the documents say exists."""

import ast
import errno
import functools
import os
import re
from pathlib import Path

import click

from cmsfs import mounts
from cmsfs.cli import main
from cmsfs.cli.support import command_table

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for folder in (".", "cmsfs", "daemon", "packaging", "systemd")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _commands(text: str) -> set[tuple[str, ...]]:
    """The words after `cmsfs` where it stands as a command: in code spans and code blocks."""
    code = re.findall(r"```.*?```|`[^`\n]+`|^ {4,}.*$", text, flags=re.S | re.M)
    return {
        tuple(found)
        for block in code
        for found in re.findall(
            r"(?<![.\w])cmsfs (?:--account \S+ )?([a-z][a-z-]*)(?![\w.])((?: --[a-z-]+)?)", block
        )
    }


def _command(name: str) -> click.Command:
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command
    return command


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_links_lead_somewhere():
    assert [
        (_name(document), target)
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", _text(document))
        if "://" not in target and not (document.parent / target).exists()
    ] == []


@functools.cache
def _anchors(document: Path) -> set[str]:
    """Its headings, as links write them."""
    found = re.findall(r"^#+ (.+)$", _text(document), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_lead_to_headings():
    assert [
        (_name(document), target, anchor)
        for document in DOCUMENTS
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", _text(document))
        if anchor not in _anchors(document.parent / target if target else document)
    ] == []


def test_what_the_troubleshooting_goes_by_is_said():
    """Messages in its first column are ours, or the system's."""
    text = (ROOT / "daemon" / "TROUBLESHOOTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", text, flags=re.M)
    said = {message for row in rows for message in re.findall(r"`([^`]+)`", row) if " " in message}
    assert len(said) > 15
    sources = [path for folder in ("cmsfs", "daemon") for path in (ROOT / folder).rglob("*.py")]
    # Adjacent strings are one, and what stands between braces is put in.
    ours = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text(encoding="utf-8") for path in sources))
    ours = ours.replace("{DEVICE}", str(mounts.DEVICE))
    known = ours + "\n".join(os.strerror(number) for number in errno.errorcode)
    for message in said:
        for part in re.split(r"\s*\.\.\.\s*", message):
            assert part in known, message


def test_the_readme_names_commands():
    assert len(_commands((ROOT / "README.md").read_text(encoding="utf-8"))) > 5


def test_commands_exist():
    assert [
        (_name(document), name, option)
        for document in DOCUMENTS
        for name, option in _commands(_text(document))
        if not _exists(name, option)
    ] == []


def _exists(name: str, option: str) -> bool:
    if name not in command_table.COMMANDS:
        return False
    options = [param for param in _command(name).params if isinstance(param, click.Option)]
    known = {word for param in options for word in (*param.opts, *param.secondary_opts)}
    return not option or option.strip() in known


def test_readme_order():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    order = [
        *("file-manager.svg", "comparison.svg", "pipx install"),
        *("cmsfs login", "cmsfs mount --enable", "GUIDE.md"),
        *("./packaging/run ~/cmsfs", "./packaging/run --stop", "./packaging/test"),
    ]
    assert [text.find(part) for part in order] == sorted(text.find(part) for part in order)
    assert all(part in text for part in order)


def test_every_command_says_what_it_does():
    for name in command_table.COMMANDS:
        command = _command(name)
        assert command.help, name
        for param in command.params:
            if isinstance(param, click.Option):
                assert param.help, (name, param.name)


SECURITY = (ROOT / "cmsfs" / "auth" / "SECURITY.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "cmsfs" / "COMPARISON.md").read_text(encoding="utf-8")


def _tests(path: Path) -> set[str]:
    """The tests in a file, those of classes with the class."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}::{one.name}" for one in inner}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def test_the_tests_that_documents_go_by_exist():
    named = re.findall(r"`([\w/]+\.py)::([\w:]+)`", SECURITY + COMPARISON)
    assert len(named) > 100
    missing = {f"{path}::{name}" for path, name in named if name not in _tests(ROOT / "tests" / path)}
    assert missing == set()


def test_every_line_of_the_security_names_a_test():
    rows = [line for line in SECURITY.splitlines() if line.startswith("| ")]
    claims = [row for row in rows if "| Shown by |" not in row and not row.startswith("| ---")]
    assert len(claims) > 50
    assert [
        row for row in claims if ".py::test_" not in row and not re.search(r"\.py::\w+::test_", row)
    ] == []
