"""D-Bus message buses of a test's own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def running() -> Iterator[str]:
    """A bus for as long as the context is open; its address.  The test is skipped where there is none."""
    command = ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        pytest.skip("dbus-daemon is not installed")
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()
