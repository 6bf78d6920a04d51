"""The official SDK for Node against the service on a socket."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from cmsfs.service.server import serve

STORY = Path(__file__).with_name("node") / "story.mjs"

# Its major versions are different programs; this is the one that the story is written for.
PACKAGE = "box-node-sdk@10"


@pytest.fixture
def installed(tmp_path):
    """A folder with the SDK, installed as its users do it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no Node.js with npm here")
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "package.json").write_text("{}", encoding="utf-8")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return folder


@pytest.mark.long
async def test_the_public_client_for_node(installed, sample, nursery):
    opened, credentials = sample
    url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
    wish = {
        "base": url,
        "folder": str(installed),
        "clientId": credentials.client_id,
        "clientSecret": credentials.client_secret,
        "userId": credentials.user_id,
    }
    with trio.fail_after(120):
        done = await trio.run_process(
            ["node", STORY, json.dumps(wish)], capture_stdout=True, capture_stderr=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said.pop("url").startswith(f"{url}/")
    assert said == {
        "me": credentials.user_id,
        "size": 22,
        "downloaded": "a capercaillie in node",
        "byUrl": "a capercaillie in node",
        "found": ["from node.txt"],
        "renamed": "renamed.txt",
        "restored": "from node.txt",
        "trashed": "trashed",
    }
