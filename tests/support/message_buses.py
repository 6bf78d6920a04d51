"""Private D-Bus message buses for tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def running() -> Iterator[str]:
    """Run a bus for the duration of the context and yield its address; skip the test if none is installed."""
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
