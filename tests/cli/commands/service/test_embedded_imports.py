"""The embedded service needs no database server and no bucket, and loads no library for them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.served import Api

LIBRARIES = {"psycopg", "psycopg_pool", "psycopg_c", "psycopg_binary", "obstore"}

# Python runs it at its start.  It notes each package when somebody wants it, also one that is not installed.
_NOTES = """
import os, sys

def note(event, args):
    if event == "import" and "." not in args[0]:
        with open(f"{os.environ['IMPORTS']}/{os.getpid()}", "a") as file:
            file.write(f"{args[0]}\\n")

sys.addaudithook(note)
"""
_IN_PROCESS = """
import json, pathlib, sys, httpx, trio
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app
from cmsfs.service.storage import store

async def main():
    async with store.open_store(pathlib.Path(sys.argv[1])) as opened:
        credentials = await demo.ensure_sample(opened)
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "box_subject_type": "user",
            "box_subject_id": credentials.user_id,
        }
        transport = httpx.ASGITransport(app.build(opened, "http://service.test"))
        async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
            token = (await client.post("/oauth2/token", data=form)).json()["access_token"]
            headers = {"authorization": f"Bearer {token}"}
            for path in ("/2.0/folders/0/items", "/2.0/search?query=bridge", "/readyz"):
                assert (await client.get(path, headers=headers)).status_code == 200

trio.run(main)
print(json.dumps(list(sys.modules)))
"""


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """`imported()`: what the processes that were started since have loaded, by process."""
    notes, startup = tmp_path / "imports", tmp_path / "startup"
    for folder in (notes, startup):
        folder.mkdir()
    (startup / "sitecustomize.py").write_text(_NOTES)
    monkeypatch.setenv("IMPORTS", str(notes))
    monkeypatch.setenv("PYTHONPATH", f"{startup}{os.pathsep}{Path(__file__).parents[4]}")
    return lambda: [set(one.read_text().split()) for one in notes.iterdir()]


def _is_free_of_it(imported):
    services = [one for one in imported() if "starlette" in one]
    assert len(services) == 1
    return all(not one & LIBRARIES for one in imported())


def test_the_service_on_a_socket(serving, imported):
    server = serving()
    api = Api(server.url, server.credentials)
    number = api.file("Plan.txt", b"a heron")
    api.write(number, b"two herons")
    api.delete("file", number)
    api.close()
    assert server.stop() == 0
    assert _is_free_of_it(imported)


@pytest.mark.usefixtures("fuse")
def test_the_sample_drive(cmsfs, mountpoint, imported):
    assert cmsfs("demo", mountpoint).returncode == 0
    subprocess.run(["sh", "-c", 'echo hello > "$1/a.txt"', "sh", mountpoint], check=True, timeout=30)
    subprocess.run(["cat", mountpoint / "Welcome.md"], check=True, stdout=subprocess.DEVNULL, timeout=30)
    assert cmsfs("sync").returncode == 0
    assert cmsfs("umount", mountpoint).returncode == 0
    assert _is_free_of_it(imported)


def test_the_service_in_a_program(tmp_path, imported):
    command = [sys.executable, "-c", _IN_PROCESS, str(tmp_path / "service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout)
    assert not LIBRARIES & set(modules)
    engines = ("cmsfs.service.storage.postgres", "cmsfs.service.storage.s3")
    assert [name for name in modules if name.startswith(engines)] == []
    assert _is_free_of_it(imported)


def test_what_loads_it_is_noticed(imported):
    pytest.importorskip("psycopg")
    code = "import starlette; from cmsfs.service.storage.postgres import database"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    assert not _is_free_of_it(imported)
