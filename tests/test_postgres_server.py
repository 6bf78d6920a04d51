"""The PostgreSQL server of the tests ends with them."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import postgres_server

SECONDS = 60
USER = """
import sys
from pathlib import Path
from tests.support import postgres_server

with postgres_server.running() as server:
    folder = Path(server.url("x").partition("host=")[2])
    guards = Path(f"/proc/self/task/{__import__('os').getpid()}/children").read_text().split()
    print(folder, (folder / "data/postmaster.pid").read_text().split()[0], *guards, flush=True)
    sys.stdin.read()
"""


def wait_for_end(process: int) -> None:
    """`process` is a descriptor."""
    assert select.select([process], [], [], SECONDS)[0], "it still runs"


@pytest.mark.parametrize("how", ["killed", "ended"])
def test_a_server_ends_with_whoever_started_it(how: str) -> None:
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    command = [sys.executable, "-c", USER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as user:
        assert user.stdout is not None and user.stdin is not None
        folder, *numbers = user.stdout.readline().split()
        assert len(numbers) == 2, "its server and its guard"
        processes = [os.pidfd_open(int(number)) for number in numbers]
        if how == "killed":
            user.send_signal(signal.SIGKILL)
        user.stdin.close()
    try:
        for process in processes:
            wait_for_end(process)
        assert not Path(folder).exists()
    finally:
        for process in processes:
            os.close(process)
