"""Runs the worker process: starts it for a job, stops it when idle.

One job at a time.  A worker that dies of its job, or takes longer than a job may, is replaced by the next
job's; whoever handed the job in hears why it is not done.

Rule: when the context is left the worker has ended.
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

# The worker's own limit ends it before this.
_DEADLINE = worker.JOB_SECONDS + 5

# In the safe way: nothing is imported from the folder where the service was started.
COMMAND = [sys.executable, "-P", "-m", "cmsfs.service.worker.worker"]

# What a worker has of the environment: nothing that is secret.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")


class WorkerFailed(Exception):
    """A job that was not done; the text says why."""


class WorkerClient:
    """Construct with `open_workshop`."""

    def __init__(self, *folders: Path) -> None:
        self._folders = [str(one.absolute()) for one in folders]
        self._process: trio.Process | None = None

    @property
    def pid(self) -> int | None:
        """The worker's, while there is one."""
        return None if self._process is None else self._process.pid

    async def do(self, job: dict[str, Any]) -> None:
        """Have a job done.  Raises `WorkerFailed`.  Cancelled: the worker has ended with the job."""
        process = self._process or await self._start()
        done = False
        try:
            with trio.move_on_after(_DEADLINE):
                answer = await _exchange(process, json.dumps(job).encode() + b"\n")
                done = answer is not None
        finally:
            if not done:
                await self.rest()
        if not done:
            raise WorkerFailed(_reason(process.returncode))
        assert answer is not None
        if "error" in answer:
            raise WorkerFailed(answer["error"])

    async def rest(self) -> None:
        """End the worker; the next job starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        with trio.CancelScope(shield=True):  # short: it is killed
            process.kill()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()

    async def _start(self) -> trio.Process:
        # In the root folder it holds no drive that somebody wants to unmount.
        self._process = process = await trio.lowlevel.open_process(
            [*COMMAND, *self._folders],
            stdin=-1,
            stdout=-1,
            stderr=-3,
            cwd="/",
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        return process


async def _exchange(process: trio.Process, line: bytes) -> dict[str, Any] | None:
    """The answer to a job; None if the worker ended without one."""
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


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        return f"it ended the process that read it (signal {-code})"
    return f"it ended the process that read it (exit code {code})"


@asynccontextmanager
async def open_workshop(*folders: Path) -> AsyncIterator[WorkerClient]:
    """A workshop whose workers have two folders, one to read and one to write; without: what the user has."""
    shop = WorkerClient(*folders)
    try:
        yield shop
    finally:
        await shop.rest()
