"""Copies text to the desktop's clipboard, through a helper program that keeps it.

The clipboard's contents are lost when their owner exits, and a command exits at once; so another program owns
them.
"""

import shutil
import subprocess

from cmsfs import process_env

# Each with the environment variable of the session type that it supports.
PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
KLIPPER = (
    *("gdbus", "call", "--session", "--timeout", "5", "--dest", "org.kde.klipper"),
    *("--object-path", "/klipper", "--method", "org.kde.klipper.klipper.setClipboardContents"),
)
SECONDS = 10.0


def copy(text: str) -> bool:
    """Put a text into the clipboard; whether that worked."""
    for variable, command in PROGRAMS:
        if process_env.variable(variable) and _run(command, text):
            return True
    return _run((*KLIPPER, text), "")


def _run(command: tuple[str, ...], given: str) -> bool:
    program = shutil.which(command[0])
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, *command[1:]],
            input=given.encode(),
            stdout=subprocess.DEVNULL,  # the process that stays in the background would keep it open
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
