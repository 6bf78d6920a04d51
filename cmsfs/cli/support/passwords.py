"""Secrets that are given in files, so that they stand on no command line.

Rule: what is read is never printed or logged.
"""

import sys
from pathlib import Path

import click

from cmsfs import errors, output

FILE = click.Path(dir_okay=False, allow_dash=True)

# A password is a line; what is longer is another file.
_MOST = 4096


def tell_if_readable(path: Path) -> None:
    """Say so, on standard error, if others on this machine may read a file with a secret."""
    if path.expanduser().stat().st_mode & 0o077:
        output.note(f"{path} holds a secret, and others on this machine may read it: chmod 600 {path}")


def read(name: str) -> str:
    """The first line of the file, or of standard input for "-".

    Raises `UserError` for a file that cannot be read or has nothing in it.  A file that others can read is
    said on standard error.
    """
    if name == "-":
        line = sys.stdin.readline(_MOST)
    else:
        path = Path(name)
        try:
            with path.open(encoding="utf-8") as file:
                line = file.readline(_MOST)
            tell_if_readable(path)
        except UnicodeDecodeError:
            raise errors.UserError(f"{path} is not a text file.") from None
        except OSError as error:
            raise errors.UserError(f"{path} cannot be read: {error.strerror}.") from None
    if not (password := line.rstrip("\r\n")):
        raise errors.UserError(f"There is no password in {'the input' if name == '-' else name}.")
    return password
