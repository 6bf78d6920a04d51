"""rclone's own suites, unmodified, with the service as the remote.

They are compiled from its sources, which are looked for in Go's workspace (`GOPATH`), or where the package
`golang-github-rclone-rclone-dev` of Debian has them.  A test is skipped where there are none.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

DEBIAN = "/usr/share/gocode"
PACKAGE = "github.com/rclone/rclone"

# The packages, and how many of their tests at least pass: the others are about what other services have.
SUITES = {"backend/box": 80, "fs/operations": 50, "fs/sync": 65, "vfs": 60}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """`compiled(suite)`: the program of a suite, and the folder to run it in."""
    go, workspace = shutil.which("go"), os.environ.get("GOPATH", DEBIAN)
    if go is None or not (Path(workspace) / "src" / PACKAGE / "fstest").exists():
        pytest.skip("Go or the sources of rclone are missing")
    folder = tmp_path_factory.mktemp("rclone")
    # It looks there for servers that it starts itself.
    (folder / "fstest" / "testserver" / "init.d").mkdir(parents=True)
    env = {"GOCACHE": str(folder / "cache")} | os.environ
    env |= {"GOPATH": workspace, "GO111MODULE": "off", "CGO_ENABLED": "0"}

    def run(suite):
        program = folder / suite.replace("/", "-")
        if not program.exists():
            # What a later Go finds doubtful in these sources is not the question.
            command = [go, "test", "-vet=off", "-c", "-o", str(program), f"{PACKAGE}/{suite}"]
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
        return program, folder

    return run


@pytest.mark.parametrize("suite", SUITES)
async def test_a_suite(at_service, compiled, suite):
    program, folder = compiled(suite)
    printed = await at_service(str(program), "-test.v", "-remote", "rival:", cwd=folder, seconds=900)
    assert not re.findall(r"^ *--- FAIL.*", printed, re.MULTILINE)
    assert len(re.findall(r"^ *--- PASS", printed, re.MULTILINE)) >= SUITES[suite]
