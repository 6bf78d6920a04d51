"""The Python SDK as it was before it was generated, against the service on a socket."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from cmsfs.service.oauth import access_tokens
from cmsfs.service.server import serve
from tests.support import clients_table

STORY = Path(__file__).parent / "python" / "story_of_3.py"
PACKAGE = "boxsdk==3.14.0"


@pytest.fixture
def installed(tmp_path):
    """A folder with the SDK; its newer versions have the same name."""
    folder = tmp_path / "sdk"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return folder


@pytest.mark.long
async def test_the_client_before_the_generated_one(installed, sample, nursery, exchanges):
    opened, credentials = sample
    url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
    token = await opened.write(
        lambda conn: access_tokens.access_token(
            conn, credentials.client_id, int(credentials.user_id), now=opened.now()
        )
    )
    wish = json.dumps({"base": url, "token": token["access_token"]})
    with trio.fail_after(100):
        done = await trio.run_process(
            [sys.executable, "-B", str(STORY), wish],
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {
        "me": credentials.user_id,
        "downloaded": "a teal in python",
        "found": ["teal.txt"],
        "versions": 1,
        "archive": [["of three/", "of three/teal.txt"], "succeeded"],
        "members": [credentials.user_id],
        "role": "viewer",
        "assigned": [credentials.user_id],
        "comment": "quack",
        "policies": [True],
        "queried": ["teal.txt"],
        "webhooks": [True],
        "favored": ["teal.txt"],
        "events": ["ITEM_CREATE", "ITEM_UPLOAD"],
        "shared": True,
        "trashed": ["First idea.md", "teal.txt"],
    }
    clients_table.hold("Python SDK 3", exchanges)
