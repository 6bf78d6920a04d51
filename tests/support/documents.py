"""The commands that a document has its readers type: in its indented blocks, and in the running text.

A block that begins with `$ ` says what each command prints; one that begins with one of `PROGRAMS` is
commands alone, a line each unless a backslash goes on.  In running text a code span is a command if it
begins with one of them; capitals stand for what the reader puts there, brackets for what may be left out.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What a reader is told to type.  What other programs do to a drive (`cp -a`, `rsync`) is SEMANTICS' matter.
PROGRAMS = {
    *(
        "cmsfs",
        "cmsfsd",
        "packaging/run",
        "packaging/test",
        "packaging/setup",
        "packaging/wheel",
        "packaging/deb",
    ),
    *("packaging/rpm", "packaging/stage", "packaging/onefile", "packaging/repository"),
    *("packaging/share", "packaging/picture", "systemctl", "journalctl", "loginctl", "apt", "dnf", "pacman"),
    *("pip", "pipx", "uv", "sudo", "modprobe", "mount", "fuser", "find", "getfattr", "git", "chmod"),
}


@dataclass(frozen=True)
class Command:
    """One command; `said` is what it prints as the document has it, None where that is not said."""

    text: str
    place: str  # the document and the line
    said: str | None = None
    is_block: bool = True


def documents() -> list[Path]:
    """Every document of the checkout, and what is explained in a file of another kind."""
    folders = ((".", "*.md"), ("cmsfs", "**/*.md"), ("daemon", "**/*.md"), ("packaging", "**/*.md"))
    found = [path for folder, names in folders for path in (ROOT / folder).glob(names)]
    return sorted([*found, *(ROOT / "cmsfs").rglob("*.example.toml")])


def name(document: Path) -> str:
    """A document's path in the checkout."""
    return str(document.relative_to(ROOT))


def of(document: Path) -> list[Command]:
    """All of a document, in its order."""
    lines = document.read_text(encoding="utf-8").splitlines()
    found: list[Command] = []
    at = 0
    while at < len(lines):
        begin = at
        while at < len(lines) and _is_block(lines, at, begin, document):
            at += 1
        if at > begin:
            found += _block([line[4:] for line in lines[begin:at]], name(document), begin + 1)
            continue
        while at < len(lines) and not _is_block(lines, at, at, document):
            at += 1
        found += spans("\n".join(lines[begin:at]), name(document), begin + 1)
    return found


def _is_block(lines: list[str], at: int, begin: int, document: Path) -> bool:
    if document.suffix != ".md" or not lines[at].startswith("    "):
        return False
    return at > begin or at == 0 or not lines[at - 1].strip() or lines[at - 1].startswith("    ")


def _block(lines: list[str], place: str, first: int) -> Iterator[Command]:
    if lines[0].startswith("$ "):
        begins = [at for at, line in enumerate(lines) if line.startswith("$ ")]
        for at, end in zip(begins, [*begins[1:], len(lines)], strict=True):
            said = "".join(f"{line}\n" for line in lines[at + 1 : end])
            yield Command(lines[at][2:], f"{place}:{first + at}", said)
    elif _is_command(lines[0]):
        whole = ""
        for at, line in enumerate(lines):
            whole += re.sub(r"(^|\s+)# .*$", "", line).strip()
            if whole.endswith("\\"):
                whole = whole[:-1]
            elif whole:
                yield Command(re.sub(r"\s+", " ", whole), f"{place}:{first + at}")
                whole = ""


def spans(text: str, place: str, first: int = 1) -> Iterator[Command]:
    """The commands in running text."""
    for span in re.finditer(r"`([^`]+)`", text):
        found = re.sub(r"\s+", " ", span[1])
        if _is_command(found):
            yield Command(found, f"{place}:{first + text.count(chr(10), 0, span.start())}", is_block=False)


def _is_command(text: str) -> bool:
    words = [word for word in plain(text).split() if not re.match(r"[A-Z_]+=", word)]
    return bool(words) and words[0] in PROGRAMS and (len(words) > 1 or "/" in words[0])


def plain(text: str) -> str:
    """Without what may be left out, and without the folder that one stands in."""
    return re.sub(r"\s*\[[^]]*\]", "", text).removeprefix("./").strip()


def covers(typed: str, claim: str) -> bool:
    """Whether who typed this has typed that, too: its words in its order, others between them."""
    wanted = [_pattern(word) for word in _words(plain(claim))]
    for part in re.split(r"[;|]|&&", typed):
        left = iter(_words(plain(part)))
        if all(any(re.fullmatch(word, other) for other in left) for word in wanted):
            return True
    return False


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark that belongs to what was cut off
        return text.split()


def _pattern(word: str) -> str:
    if word == "..." or "=" in word:
        return ".*" if word == "..." else re.escape(word)
    return re.sub(r"[A-Z]{2,}", r"\\S+", re.escape(word))
