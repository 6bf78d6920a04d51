"""Another version is installed under a running drive: it says so, and loads nothing of that version."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

import daemon.app  # noqa: F401  (what a start loads)
from daemon.core import replaced_files

ROOT = Path(__file__).parents[3]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    file = tmp_path / "__init__.py"
    file.write_text('__version__ = "1.0"\n')
    return file


def replace(mark: Path, version: str) -> None:
    new = mark.with_suffix(".new")
    new.write_text(f'__version__ = "{version}"\n')
    new.replace(mark)


def test_an_installed_version_is_told(mark: Path) -> None:
    files = replaced_files.ReplacedFiles(mark)
    assert files.installed() == ""
    replace(mark, "1.1")
    assert files.installed() == "1.1"
    mark.unlink()
    assert files.installed() == "none"


def test_no_module_comes_from_another_version(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    # None that there is: to load one of ours anew would give the other tests of this process two of it.
    name = "cmsfs.service.of_no_version"
    replaced_files.ReplacedFiles(mark).guard()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    replace(mark, "1.1")
    with pytest.raises(replaced_files.AnotherVersion, match="Another version") as refused:
        importlib.import_module(name)
    assert isinstance(refused.value, ImportError)


# Loaded while a drive starts, all of them before it is complete.
_WITH_THE_START = {
    *(
        "daemon.core.network_watch.NetworkWatch",
        "daemon.desktop.shutdown_inhibitor.ShutdownInhibitor",
        "daemon.command",
        "daemon.metrics",
        "daemon.desktop.thumbnails.Thumbnails",
        "daemon.downscoped",
    ),
    *("cmsfs.service.provisioning.demo", "cmsfs.service.renditions.indexing", "cmsfs.service.server.app"),
    *("cmsfs.service.server.sweeper", "cmsfs.service.storage.store", "cmsfs.process_env"),
}


# Loaded when a person asks, who is then told.
_WHEN_ASKED = ("daemon.ui.", "cmsfs.service.server.http1.")


def test_what_is_loaded_late_is_loaded_after_the_start() -> None:
    parts = ("auth", "cache", "client", "fuse", "ipc", "journal", "replica", "vfs")
    folders = [ROOT / "daemon", *(ROOT / "cmsfs" / part for part in parts)]
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in folder.rglob("*.py")]
    # To parse all of them would take a second.
    indented = [text for text in texts if re.search(r"^\s+from (cmsfs|daemon)[. ]", text, re.M)]
    late = {name for text in indented for name in _late(ast.parse(text))}
    late = {name for name in late if name.startswith(("cmsfs.", "daemon."))}
    late = {name for name in late if not name.startswith(_WHEN_ASKED)}
    assert "cmsfs.ipc.notification_bus" in late
    assert late - _WITH_THE_START - set(replaced_files.LATE) == set()
    replaced_files.load_the_rest()
    assert set(replaced_files.LATE) <= set(sys.modules)


def _late(tree: ast.Module) -> set[str]:
    """What functions import."""
    return {
        f"{node.module}.{one.name}"
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
