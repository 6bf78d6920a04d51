"""The arrows of the architecture point one way."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_layers_keep_their_contracts():
    lint_imports = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
