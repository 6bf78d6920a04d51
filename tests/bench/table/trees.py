"""Rows of a git tree: copied in, asked for its state where nothing of it is here, and packed again."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.bench.table.comparison import EVERYBODY, Comparison, Found, ShownFigure
from tests.bench.table.contenders import Contender
from tests.bench.table.stage import Stage, run, seconds
from tests.bench.table.writing import source


def _repository(stage: Stage, scale: float) -> Path:
    """Half of its files are git's own."""
    top = stage.scratch / "repository"
    if not top.exists():
        shutil.copytree(source(stage, int(1400 * scale), 0), top)
        _git(top, "init", "--quiet")
        _git(top, "add", ".")
        _git(top, "-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "--quiet", "-m", "all")
    return top


def _git(top: Path, *words: str) -> bytes:
    return subprocess.run(
        # On the drive it is another owner's where somebody else runs the benchmark.
        ["git", "-c", "safe.directory=*", "-C", str(top), *words],
        check=True,
        capture_output=True,
    ).stdout


def _tree(stage: Stage, who: Contender, scale: float) -> Found:
    repository = _repository(stage, scale)
    name = f"git by {who.name}"
    with who.mounted() as top:
        if (top / name).exists():
            shutil.rmtree(top / name)
            who.uploaded()
        found = {"copy": seconds(lambda: run("cp", "-a", repository, top / name))}
        _git(top / name, "update-index", "-q", "--refresh")
        who.uploaded()
    with who.mounted() as top:
        for _ in os.walk(top / name):
            pass
        before = stage.answered()[0]
        found["status"] = seconds(lambda: _git(top / name, "--no-optional-locks", "status", "--porcelain"))
        if who.remote:
            found["requests"] = stage.answered()[0] - before
        _packed(top / name)
        who.uploaded()
    with who.mounted(keep=True) as top:
        for path in who.cached():
            path.read_bytes()
        found["tar"] = seconds(lambda: _packed(top / name))
    return found


def _packed(top: Path) -> None:
    # To a pipe: tar reads nothing for /dev/null.
    run("sh", "-c", f"tar -cf - -C '{top}' . | cat >/dev/null")


ROWS = (
    Comparison(
        "git",
        EVERYBODY,
        (
            ShownFigure("copy", "cp -a of a git tree, 2,900 files", "s", "<= 2.5"),
            ShownFigure("status", "git status, nothing cached", "s", "<= 6"),
            ShownFigure("requests", "its requests", ""),
            ShownFigure("tar", "tar of it, after a restart", "s", "<= 1.0"),
        ),
        _tree,
        seconds=1800,
    ),
)
