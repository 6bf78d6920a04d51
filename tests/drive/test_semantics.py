"""The examples of SEMANTICS.md, each section in an empty folder on a real mount."""

import re
import subprocess
from importlib import resources

from tests.support.mounted_drive import MountedDrive

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def sections() -> dict[str, list[str]]:
    """The example lines of each section that has any."""
    text = (resources.files("cmsfs.vfs") / "SEMANTICS.md").read_text(encoding="utf-8")
    parts = SECTION.split(text)
    found = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line[4:] for line in body.splitlines() if line.startswith("    ")]
        if lines:
            found[title] = lines
    return found


def test_every_example_prints_what_it_says(drive: MountedDrive) -> None:
    found = sections()
    assert len(found) >= 6
    for title, told in found.items():
        lines = told
        if drive.processes is not None:
            address = f"default@127.0.0.1:{drive.processes.port}"
            lines = [line.replace("default@embedded", address) for line in told]
        folder = drive.top / title.replace(",", "").replace(" ", "-")
        folder.mkdir()
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        script = "\n".join(f"printf '%s\\n' \"$ \"{quote(c)}\n{c}" for c in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        )
        assert done.stdout.splitlines() == lines, title


def quote(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"
