"""The desktop's clipboard, through a program that keeps what was copied.

A command ends at once, and what it had put there would go with it; so another program has to have it.
"""

import shutil
import subprocess

from cmsfs import process_env

# Each with the variable of the session that it serves: who asks the other one is answered by nobody.
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
    """Put a text into the clipboard; whether that could be done."""
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
            stdout=subprocess.DEVNULL,  # it is kept open by what stays behind
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
