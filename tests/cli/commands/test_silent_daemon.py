"""A daemon that hangs: what is said of it, and that a command waits for it once."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs import errors
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The socket of one that takes connections and answers nothing."""
    monkeypatch.setattr(daemonctl, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(daemonctl, "silent_sockets", {})
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        yield path


def test_hanging_daemon_is_named_with_its_remedy(silent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.UserError) as first:
        list(daemonctl.exchange(silent, control.GetStatus()))
    assert f"`kill -9 {os.getpid()}` ends it" in first.value.message
    monkeypatch.setattr(daemonctl, "connection", None)  # it would be waited for again
    monkeypatch.setattr(daemonctl, "SILENCE_SECONDS", 60)
    daemonctl.silent_sockets[silent] = daemonctl.silent_sockets[silent]._replace(until=float("inf"))
    with pytest.raises(errors.UserError) as second:
        list(daemonctl.exchange(silent, control.GetStatus()))
    assert second.value.message == first.value.message
