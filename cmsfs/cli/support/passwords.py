"""Reads secrets from files, so that they never appear on a command line.

Rule: a secret is never printed or logged.
"""

import sys
from pathlib import Path

import click

from cmsfs import errors, output

FILE = click.Path(dir_okay=False, allow_dash=True)

# A password is one line; a longer file is not a password file.
_MOST = 4096


def warn_if_readable(path: Path) -> None:
    """Warn on standard error if other users of this machine may read a file with a secret."""
    if path.expanduser().stat().st_mode & 0o077:
        output.note(f"{path} holds a secret, and others on this machine may read it: chmod 600 {path}")


def read(name: str) -> str:
    """Return the first line of the file, or of standard input for "-".

    Raises `UserError` for an unreadable or empty file.  Warns on standard error if others can read the file.
    """
    if name == "-":
        line = sys.stdin.readline(_MOST)
    else:
        path = Path(name)
        try:
            with path.open(encoding="utf-8") as file:
                line = file.readline(_MOST)
            warn_if_readable(path)
        except UnicodeDecodeError:
            raise errors.UserError(f"{path} is not a text file.") from None
        except OSError as error:
            raise errors.UserError(f"{path} cannot be read: {error.strerror}.") from None
    if not (password := line.rstrip("\r\n")):
        raise errors.UserError(f"There is no password in {'the input' if name == '-' else name}.")
    return password
