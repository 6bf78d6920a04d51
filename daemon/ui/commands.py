"""Runs what only the command line can do: changing settings, login and logout, the checks of `cmsfs doctor`.

Each command runs in its own process, as if the user had entered it, but not interactively.

Rule: input from the browser is never an option: it is passed after `--`, or as the value of an option.
"""

import subprocess
import sys

import trio

from cmsfs import errors

# Timeout: checking the connection to an unresponsive service takes long.
SECONDS = 90.0

MOST_OUTPUT = 1024 * 1024


async def run(account: str, *arguments: str, seconds: float = SECONDS, fails: bool = True) -> str:
    """Run `cmsfs`; return its output.  Raises `UserError` with the output if it fails, unless not `fails`."""
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
        raise errors.UserError("The command timed out.") from None
    if done.returncode and fails:
        said = done.stderr[:MOST_OUTPUT].decode(errors="replace").strip().removeprefix("cmsfs: ")
        raise errors.UserError(said or "The command failed.")
    return done.stdout[:MOST_OUTPUT].decode(errors="replace")
