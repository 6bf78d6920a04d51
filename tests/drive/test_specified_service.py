"""The drive over a service that offers the operations of its specification alone, as people use it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import faults
from tests.support.mounted_drive import MountedDrive
from tests.support.relayed import relayed
from tests.support.served import Api
from tests.support.server_process import ServerProcess
from tests.support.specified_service import is_offered

UNKNOWN = faults.Answer(
    404,
    {"Content-Type": "application/json"},
    json.dumps({"type": "error", "status": 404, "code": "not_found", "message": "Not Found"}).encode(),
)


def refuse(method: str, target: str) -> faults.Fault | None:
    return None if is_offered(method, target.partition("?")[0]) else UNKNOWN


@pytest.fixture
def complete(
    stopped: MountedDrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Any
) -> Iterator[Api]:
    """Another program, with the complete service; the drive is mounted on what the relay lets through."""
    server = processes or ServerProcess(tmp_path / "service").start()
    secret = tmp_path / "secret"
    secret.write_text(server.credentials["client_secret"])
    api = Api(server.url, server.credentials)
    day = api.folder("day")
    api.update("file", api.file("shared.txt", b"read me\n", day), shared_link={})
    api.file("alone.bin", b"no link", day)
    try:
        with relayed(server.port, faults.Plan(refuse)) as port:
            url = f"http://127.0.0.1:{port}"
            settings = {
                "PROFILE": "specification",
                "BASE_URL": f"{url}/2.0",
                "UPLOAD_URL": f"{url}/api/2.0",
                "AUTH_URL": url,
                "CLIENT_ID": server.credentials["client_id"],
                "CLIENT_SECRET_FILE": str(secret),
                "SUBJECT_ID": server.credentials["user_id"],
                "SETTLE_SECONDS": "0.2",
            }
            for name, value in settings.items():
                monkeypatch.setenv(f"CMSFS_{name}", value)
            stopped.top.mkdir()
            stopped.cmsfs("mount", stopped.top)
            yield api
            stopped.cmsfs("umount", stopped.top, "--force", check=False)
    finally:
        api.close()
        if server is not processes:
            server.stop()


STORY = r"""
ls
cat shared.txt
cat alone.bin || true
printf 'new' > new.bin
echo more >> shared.txt || true
mv shared.txt moved.txt || true
mkdir folder || true
rm -f shared.txt alone.bin || true
touch shared.txt || true
stat -c '%n %A' shared.txt
"""

SAID = """\
alone.bin
shared.txt
read me
cat: alone.bin: Operation not supported
bash: line 6: shared.txt: Read-only file system
mv: cannot move 'shared.txt' to 'moved.txt': Operation not permitted
mkdir: cannot create directory 'folder': Operation not permitted
rm: cannot remove 'shared.txt': Operation not permitted
rm: cannot remove 'alone.bin': Operation not permitted
touch: cannot touch 'shared.txt': Read-only file system
shared.txt -r--r--r--
"""


def test_a_day_at_such_a_drive(complete: Api, stopped: MountedDrive) -> None:
    day = stopped.top / "day"
    assert stopped.sh(f"exec 2>&1; export LC_ALL=C\n{STORY.lstrip()}", cwd=day) == SAID
    stopped.sync()
    assert sorted(one.name for one in day.iterdir()) == ["alone.bin", "new.bin", "shared.txt"]
    done = json.loads(stopped.cmsfs("doctor", "--json", check=False).stdout)
    operations = next(check for check in done["checks"] if check["name"] == "operations")
    assert " It cannot " in operations["said"], done
    able, unable = operations["said"].split(" It cannot ")
    assert "upload new files" in able
    assert "delete items" in unable
    assert "show an item by its ID" in unable
    told = stopped.cmsfs("get", "/day/alone.bin", "-", check=False)
    assert told.returncode == 1
    assert "Or it takes what this service cannot do: rename, move or describe items" in told.stderr
