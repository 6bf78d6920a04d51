"""The documents for people who have the package and no checkout: one folder, its links lead to its files.

    share/doc/cmsfs/README.md, GUIDE.md, ...

A link to another of these documents is one inside the folder; one to anything else of the checkout (the code,
what is for its developers) becomes its text alone, and what a document shows or offers as a file comes along.
"""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

DOCUMENTS = (
    *("README.md", "CHANGELOG.md", "cmsfs/cli/GUIDE.md", "daemon/TROUBLESHOOTING.md"),
    *("packaging/ADMINISTRATION.md", "cmsfs/auth/SECURITY.md", "cmsfs/vfs/SEMANTICS.md"),
    *("cmsfs/COMPARISON.md", "cmsfs/GLOSSARY.md", "cmsfs/service/API.md"),
)

# What the documents show or offer.
FILES = (
    *("packaging/pictures/file-manager.svg", "packaging/pictures/comparison.svg"),
    *("cmsfs/service/enterprise.example.toml", "packaging/nginx.example.conf"),
)

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def write(folder: Path) -> None:
    """Write all of them into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DOCUMENTS:
        source = ROOT / name
        (folder / source.name).write_text(moved(source), encoding="utf-8")
    for name in FILES:
        shutil.copyfile(ROOT / name, folder / Path(name).name)


def moved(document: Path) -> str:
    """The text of a document with its links as they are in the folder."""
    there = {(ROOT / name).resolve(): Path(name).name for name in (*DOCUMENTS, *FILES)}

    def link(found: re.Match[str]) -> str:
        mark, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target:
            return found[0]
        name = there.get((document.parent / target).resolve())
        return f"{mark}[{text}]({name}{anchor})" if name else text

    return _LINK.sub(link, document.read_text(encoding="utf-8"))
