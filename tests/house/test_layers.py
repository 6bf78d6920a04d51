"""The arrows of the architecture point one way."""

import graphlib
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]


def test_the_layers_keep_their_contracts():
    lint_imports = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_import_circles():
    """Also none by imports inside functions, or for types alone."""
    graph = grimp.build_graph("cmsfs", "daemon", cache_dir=None)
    imports = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(f"a circle of imports: {' <- '.join(error.args[1])}") from None
