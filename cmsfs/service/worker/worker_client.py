"""Runs the worker process: starts it for a job, stops it when idle.

One job at a time.  A worker that crashes or exceeds the time limit is replaced for the next job; the caller
gets the reason as an exception.

Rule: when the context exits, the worker process has ended.
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from cmsfs.service.worker import worker

# The worker's own time limit ends it before this.
_TIMEOUT = worker.JOB_SECONDS + 5

# -P: nothing is imported from the folder where the service was started.
COMMAND = [sys.executable, "-P", "-m", "cmsfs.service.worker.worker"]

# The environment variables that the worker inherits: no secrets.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")


class WorkerFailed(Exception):
    """A job failed; the message is the reason."""


class WorkerClient:
    """A client of at most one worker process.  Construct with `open_worker`."""

    def __init__(self, *folders: Path) -> None:
        self._folders = [str(one.absolute()) for one in folders]
        self._process: trio.Process | None = None

    @property
    def pid(self) -> int | None:
        """The worker's process id, or None."""
        return None if self._process is None else self._process.pid

    async def run_job(self, job: dict[str, Any]) -> None:
        """Run a job.  Raises `WorkerFailed`.  Cancellation kills the worker with the job."""
        process = self._process or await self._start()
        done = False
        try:
            with trio.move_on_after(_TIMEOUT):
                answer = await _send_job(process, json.dumps(job).encode() + b"\n")
                done = answer is not None
        finally:
            if not done:
                await self.stop()
        if not done:
            raise WorkerFailed(_exit_reason(process.returncode))
        assert answer is not None
        if "error" in answer:
            raise WorkerFailed(answer["error"])

    async def stop(self) -> None:
        """Kill the worker; the next job starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        with trio.CancelScope(shield=True):  # short, since the process is killed
            process.kill()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()

    async def _start(self) -> trio.Process:
        # With the root as its working directory it does not keep a drive from being unmounted.
        self._process = process = await trio.lowlevel.open_process(
            [*COMMAND, *self._folders],
            stdin=-1,
            stdout=-1,
            stderr=-3,
            cwd="/",
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        return process


async def _send_job(process: trio.Process, line: bytes) -> dict[str, Any] | None:
    """Send a job and return the answer; None if the worker ended without one."""
    assert process.stdin is not None and process.stdout is not None
    got = b""
    with suppress(trio.BrokenResourceError):
        await process.stdin.send_all(line)
        while not got.endswith(b"\n"):
            chunk = await process.stdout.receive_some()
            if not chunk:
                await process.wait()
                return None
            got += chunk
        answer: dict[str, Any] = json.loads(got)
        return answer
    await process.wait()
    return None


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"it ended the process that read it (signal {-code})"
    return f"it ended the process that read it (exit code {code})"


@asynccontextmanager
async def open_worker(*folders: Path) -> AsyncIterator[WorkerClient]:
    """Open a client whose workers may access two folders, one to read and one to write; none: no sandbox."""
    shop = WorkerClient(*folders)
    try:
        yield shop
    finally:
        await shop.stop()
