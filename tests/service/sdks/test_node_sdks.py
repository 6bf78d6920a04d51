"""The official SDKs for Node and TypeScript, and the official command line, against the service on a socket.

Each is installed from npm as its users do it; a test is skipped where that cannot be done.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from cmsfs.service.oauth import access_tokens
from cmsfs.service.server import serve
from tests.support import certificates, clients_table

NODE = Path(__file__).with_name("node")

pytestmark = pytest.mark.long


def _installed(folder, package):
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no Node.js with npm here")
    folder.mkdir()
    (folder / "package.json").write_text("{}", encoding="utf-8")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", package]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install {package}: {done.stderr.strip()[-200:]}")
    return folder


@pytest.fixture
async def served(sample, nursery, tmp_path, monkeypatch):
    """The address of the service, its sample's credentials and a token of its owner.

    It is behind TLS: without that the older client, and the command line with it, ask nobody.
    """
    opened, credentials = sample
    certfile, keyfile = certificates.self_signed(tmp_path)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certfile))

    async def run(task_status):
        await serve.serve(opened, port=0, certfile=certfile, keyfile=keyfile, task_status=task_status)

    url = await nursery.start(lambda task_status: run(task_status))
    token = await opened.write(
        lambda conn: access_tokens.access_token(
            conn, credentials.client_id, int(credentials.user_id), now=opened.now()
        )
    )
    return url, credentials, token["access_token"]


async def run(command, **options):
    with trio.fail_after(120):
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, **options
        )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout


async def told(story, folder, served, name):
    url, credentials, token = served
    wish = {
        "base": url,
        "folder": str(folder),
        "name": name,
        "clientId": credentials.client_id,
        "clientSecret": credentials.client_secret,
    }
    wish |= {"token": token} if story.suffix == ".cjs" else {"userId": credentials.user_id}
    return json.loads(await run(["node", story, json.dumps(wish)]))


# Their major versions are different programs; these are the ones that the story is written for.
@pytest.mark.parametrize(
    ("package", "client"),
    [("box-node-sdk@10", "Node SDK 10"), ("box-typescript-sdk-gen@1", "TypeScript SDK 1")],
)
async def test_the_generated_clients(tmp_path, served, package, client, exchanges):
    folder = _installed(tmp_path / "node", package)
    said = await told(NODE / "story.mjs", folder, served, package.partition("@")[0])
    assert said.pop("url").startswith(f"{served[0]}/")
    assert {"ITEM_CREATE", "ITEM_UPLOAD", "ITEM_TRASH"} <= set(said.pop("events"))
    assert said == {
        "me": served[1].user_id,
        "size": 22,
        "downloaded": "a capercaillie in node",
        "byUrl": "a capercaillie in node",
        "found": ["from node.txt"],
        "renamed": "renamed.txt",
        "restored": "from node.txt",
        "trashed": "trashed",
        "archive": ["PK", True],
        "members": [[True, served[1].user_id]],
        "approved": "approved",
        "cascaded": 8.5,
        "long": ["inside.txt"],  # what is below the folder
        "webhooks": [True],
        "favored": ["inside.txt"],
    }
    clients_table.hold(client, exchanges)


async def test_the_client_before_those(tmp_path, served, exchanges):
    folder = _installed(tmp_path / "node", "box-node-sdk@3")
    said = await told(NODE / "story_of_3.cjs", folder, served, "box-node-sdk")
    assert {"ITEM_CREATE", "ITEM_UPLOAD"} <= set(said.pop("events"))
    assert said == {
        "me": served[1].user_id,
        "downloaded": "a goldeneye in node",
        "archive": ["PK", True, "succeeded"],
        "found": ["from three.txt"],
        "members": [served[1].user_id],
        "shared": [["viewer", "of three"]],
        "metadata": ["smew"],
        "queried": ["from three.txt"],
        "policies": [True],
        "assigned": [served[1].user_id],
        "webhooks": [True],
        "favored": ["from three.txt"],
    }
    clients_table.hold("Node SDK 3", exchanges)


async def test_the_calls_of_the_command_line(tmp_path, served, exchanges):
    """The program itself cannot be had everywhere; what it calls can."""
    folder = _installed(tmp_path / "node", "box-node-sdk@4")
    said = await told(NODE / "story_of_the_command_line.cjs", folder, served, "box-node-sdk")
    assert {"ITEM_UPLOAD"} <= set(said.pop("mine"))
    assert {"UPLOAD", "GROUP_CREATION"} <= set(said.pop("theirs"))
    assert said == {
        "created": "2026-01-02T03:04:05+00:00",
        "again": True,
        "large": [True, True],
        "name": "b.txt",
        "downloaded": "a pintail on the command line",
        "before": "a wigeon on the command line",
        "zip": ["PK", "succeeded"],
        "groups": [True],
        "metadata": ["wigeon", "pintail"],
        "found": ["b.txt"],
        "filtered": ["b.txt"],
    }
    clients_table.hold("Node SDK 4", exchanges)


async def test_the_command_line(tmp_path, served, exchanges):
    url, _, token = served
    box = shutil.which("box")
    if box is None:
        box = _installed(tmp_path / "node", "@box/cli") / "node_modules" / ".bin" / "box"
    home = tmp_path / "home"
    (home / ".box").mkdir(parents=True)
    settings = {
        "apiRootURL": url,
        "uploadAPIRootURL": f"{url}/api",
        "authorizeRootURL": f"{url}/api",
        "boxDownloadsFolderPath": str(home),
        "boxReportsFolderPath": str(home),
    }
    (home / ".box" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    async def command(*words):
        printed = await run([box, *words, "--json", "--token", token], env={**os.environ, "HOME": str(home)})
        return json.loads(printed) if printed.strip() else None

    (home / "a.txt").write_text("a wigeon on the command line", encoding="utf-8")
    file = await command("files:upload", str(home / "a.txt"), "--parent-id", "0", "--name", "b.txt")
    await command("files:download", file["id"], "--destination", str(home))
    assert (home / "b.txt").read_text(encoding="utf-8") == "a wigeon on the command line"
    await command("files:zip", "z.zip", "--item", f"file:{file['id']}", "--destination", str(home))
    assert (home / "z.zip").read_bytes().startswith(b"PK")
    assert [one["name"] for one in await command("search", "wigeon")] == ["b.txt"]
    group = await command("groups:create", "Anglers")
    assert [one["id"] for one in await command("groups")] == [group["id"]]
    metadata = await command(
        *("files:metadata:add", file["id"], "--scope", "global"),
        *("--template-key", "properties", "--data", "bird=wigeon"),
    )
    assert metadata["bird"] == "wigeon"
    assert "ITEM_UPLOAD" in {one["event_type"] for one in await command("events", "--stream-position", "0")}
    clients_table.hold("command line", exchanges)
