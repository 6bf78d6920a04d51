"""A forked program is the one that `python -m` starts: what it says, how it ends, what is seen of it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import forked

FORKED = [sys.executable, "-m", "cmsfs"]
STARTED = [sys.executable, "-B", "-m", "cmsfs"]  # an option of Python's own


@pytest.mark.parametrize(
    ("words", "level"),
    [(["status", "--json"], "INFO"), (["nope"], "INFO"), (["config", "check"], "LOUD"), (["fsck"], "INFO")],
)
def test_says_and_ends_like_one_started_anew(words, level, tmp_path):
    (tmp_path / "config.toml").write_text(f'log_level = "{level}"\n')
    env = os.environ | {"CMSFS_CONFIG": "config.toml"}
    forked, started = (
        subprocess.run([*command, *words], capture_output=True, text=True, cwd=tmp_path, env=env)
        for command in (FORKED, STARTED)
    )
    assert forked.stdout + forked.stderr
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )


def test_forked_process_io(tmp_path):
    done = subprocess.run(
        [*FORKED, "login", "http://127.0.0.1:1", "--yes"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 2
    assert done.stdout.startswith(b"cmsfs: ")


def test_its_environment_session_and_signals_are_its_own(tmp_path):
    command = [*FORKED, "serve", "--data", tmp_path / "data", "--port", "0", "--json"]
    env = os.environ | {"OF_THE_TEST": "yes"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, start_new_session=True
    ) as process:
        assert process.stdout
        json.loads(b"".join(iter(process.stdout.readline, b"}\n")) + b"}")
        assert b"OF_THE_TEST=yes" in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        assert os.getsid(process.pid) == process.pid
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        process.kill()
        assert process.wait(timeout=20) == -signal.SIGKILL
        assert not Path(f"/proc/{process.pid}").exists()


def test_a_script_passes_its_signal_on(program, tmp_path):
    script = tmp_path / "serve"
    script.write_text(f"#!/bin/sh\n{program('cmsfs')}\n")
    script.chmod(0o755)
    command = [script, "serve", "--data", tmp_path / "data", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        while (line := process.stdout.readline()) != "}\n":
            assert line, process.stderr.read()
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert "another signal" in process.stderr.read()


def test_threads_that_need_it_at_once_start_one_server(monkeypatch):
    """Two would end each other: the first is forgotten, and a program forked by it has nobody to tell."""
    both = threading.Barrier(2)
    shipped = tempfile.mkdtemp

    def folder():
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return shipped()

    monkeypatch.setattr(tempfile, "mkdtemp", folder)
    server = forked.Server()
    with ThreadPoolExecutor(2) as pool:
        first, second = [pool.submit(server.path) for _ in range(2)]
    assert first.result() == second.result()
    server.stop()
