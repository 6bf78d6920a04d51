"""Captures what libfuse and fusermount3 print when a mount fails, and explains it.

Their output is the only source of the reason: the library's functions only return that they failed.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO

# Parts of what libfuse and fusermount3 print, and what they mean to a user.
_REASONS = (
    ("user_allow_other", "allow_other needs the line user_allow_other in /etc/fuse.conf"),
    ("mount_max", "this user has as many FUSE file systems as mount_max in /etc/fuse.conf allows"),
    (
        "mount failed: Operation not permitted",
        "fusermount3 may not mount (it must be setuid root, unconfined)",
    ),
    ("fusermount3: No such file", "fusermount3 is missing; it comes with the package fuse3"),
    ("fusermount3 failed: No such file", "fusermount3 is missing; it comes with the package fuse3"),
    ("/dev/fuse: Permission denied", "this user may not open /dev/fuse"),
    ("no write access to mountpoint", "this user may not write to the mountpoint"),
)


def reason(printed: str) -> str:
    """Explain libfuse's output in one clause; its last line if it is not known."""
    for part, meaning in _REASONS:
        if part in printed:
            return meaning
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "no reason given by libfuse"


@contextmanager
def caught() -> Iterator[Callable[[], str]]:
    """Capture what C code prints to file descriptor 2; without an error, print it afterwards."""
    with tempfile.TemporaryFile() as spool:
        sys.stderr.flush()
        outside = os.dup(2)
        os.dup2(spool.fileno(), 2)
        try:
            yield partial(_text, spool)
        except BaseException:
            os.dup2(outside, 2)
            raise
        else:
            os.dup2(outside, 2)
            os.write(2, _text(spool).encode())
        finally:
            os.close(outside)


def _text(spool: IO[bytes]) -> str:
    spool.seek(0)
    return spool.read().decode("utf-8", "replace")
