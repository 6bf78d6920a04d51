"""Opens a path or URL with the desktop's default application."""

import shutil
import subprocess

from cmsfs import errors

# gio first: it follows the desktop's settings even on desktops where xdg-open does nothing.
OPENERS = (("gio", "open"), ("xdg-open",))


def hand_over(target: str) -> None:
    """Open the target with the desktop.  Raises `UserError` if there is none."""
    for opener in OPENERS:
        if program := shutil.which(opener[0]):
            done = subprocess.run([program, *opener[1:], target], stdin=subprocess.DEVNULL, check=False)
            if done.returncode == 0:
                return
    raise errors.UserError(f"No desktop found to open {target}.")
