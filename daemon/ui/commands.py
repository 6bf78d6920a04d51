"""Carries out what the command line alone can do: settings, login and logout, the checks of `cmsfs doctor`.

Each is a process of its own, as if the person had typed it, with nothing to ask them.

Rule: what a browser sends is never an option: it stands behind `--`, or belongs to an option that takes it.
"""

import subprocess
import sys

import trio

from cmsfs import errors

# A check of the connection waits for a service that is silent.
SECONDS = 90.0

MOST_OUTPUT = 1024 * 1024


async def run(account: str, *arguments: str, seconds: float = SECONDS, fails: bool = True) -> str:
    """What `cmsfs` prints.  Raises `UserError` with what it says if it fails, where it `fails` by that."""
    command = [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "cmsfs", f"--account={account}"]
    try:
        with trio.fail_after(seconds):
            done = await trio.run_process(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    except trio.TooSlowError:
        raise errors.UserError("It took too long and was given up.") from None
    if done.returncode and fails:
        said = done.stderr[:MOST_OUTPUT].decode(errors="replace").strip().removeprefix("cmsfs: ")
        raise errors.UserError(said or "It failed.")
    return done.stdout[:MOST_OUTPUT].decode(errors="replace")
