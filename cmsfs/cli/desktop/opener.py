"""Hands a path or an address over to the desktop."""

import shutil
import subprocess

from cmsfs import errors

# In this order: gio follows the desktop's settings also where xdg-open knows the desktop and does nothing.
OPENERS = (("gio", "open"), ("xdg-open",))


def hand_over(target: str) -> None:
    """Have the desktop open it.  Raises `UserError` where there is none."""
    for opener in OPENERS:
        if program := shutil.which(opener[0]):
            done = subprocess.run([program, *opener[1:], target], stdin=subprocess.DEVNULL, check=False)
            if done.returncode == 0:
                return
    raise errors.UserError(f"No desktop found to open {target}.")
