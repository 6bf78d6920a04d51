"""The extensions of the file managers, loaded with their real bindings into the system's Python."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
PYTHON = "/usr/bin/python3"

ASK = ("get_file_items", "get_background_items")

# The extension, its bindings, and how its menus are asked for.
EXTENSIONS = {
    "nautilus-python/extensions/cmsfs_nautilus.py": ("Nautilus", "4.0", *ASK),
    "nemo-python/extensions/cmsfs_nemo.py": ("Nemo", "3.0", *ASK),
    "caja-python/extensions/cmsfs_caja.py": ("Caja", "2.0", *ASK),
    "thunarx-python/extensions/cmsfs_thunar.py": (
        *("Thunarx", "3.0"),
        *("get_file_menu_items", "get_folder_menu_items"),
    ),
}

_LOAD = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("extension", sys.argv[1])
found = importlib.util.module_from_spec(spec)
spec.loader.exec_module(found)
import cmsfs_drives as drives

class Path:
    def get_path(self):
        return "/drive/a"

class File:
    def get_location(self):
        return Path()
    def get_uri_scheme(self):
        return "file"
    def is_directory(self):
        return True

drives.DRIVES.locate = lambda path: ("/drive", "/a")
drives.DRIVES.ask = lambda drive, request, done: done(None)
menu = found.CmsfsMenu()
chosen = getattr(menu, sys.argv[2])(None, [File()])
shown = getattr(menu, sys.argv[3])(None, File())
print(json.dumps([[item.get_property("label") for item in items] for items in (chosen, shown)]))
"""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is installed in share/."""
    folder = tmp_path_factory.mktemp("share")
    subprocess.run([sys.executable, PACKAGING / "share", folder], check=True, timeout=60)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("file", EXTENSIONS, ids=lambda file: file.partition("-")[0])
def test_the_extension_makes_menus_with_real_bindings(share: Path, file: str) -> None:
    name, version, *ask = EXTENSIONS[file]
    look = f"import gi; gi.require_version({name!r}, {version!r})"
    if subprocess.run([PYTHON, "-c", look], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip(f"the bindings of {name} are not installed")
    done = subprocess.run([PYTHON, "-B", "-c", _LOAD, share / file, *ask], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    offered = ["Show Sync Status", "Share…", "Open on the Web", "Free Up Space", "Make Available Offline"]
    assert json.loads(done.stdout) == [
        [*offered, "Copy Shared Link"],
        ["Show Sync Status", "Restore Deleted Files…"],
    ]
