"""The words between command line and daemon."""

from datetime import UTC, datetime

import pydantic
import pytest

from cmsfs.ipc import attention, control, diagnostics, ready

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "request_",
    [
        *(control.Ping(), control.GetStatus(), control.Sync(), control.Stop(force=True), control.Poll()),
        *(control.Retry(), control.Retry(path="/a"), control.Discard(path="/a"), control.GetConflicts()),
        *(control.Pin(path="/a"), control.Unpin(path="/a"), control.GetPins(), control.Watch()),
        *(control.GetPathStatus(path="/a"), control.Pause(seconds=60), control.Pause(), control.Resume()),
        control.SetLogLevel(level="DEBUG"),
    ],
)
def test_a_request_comes_out_as_it_went_in(request_):
    line = control.encode(request_)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert control.parse_request(line) == request_


def test_a_status_comes_out_as_it_went_in():
    op = attention.PendingChange(
        seq=1, kind="create", path="/a\nb.txt", state="held", attempts=3, error="refused"
    )
    status = control.DriveStatus(
        account="default",
        profile="Embedded service",
        mountpoint="/mnt",
        pid=1,
        version="0.1.0",
        started=NOW,
        health=diagnostics.HealthStatus(state="online", since=NOW),
        queue=control.QueueStatus(waiting=2, held=1, ops=[op]),
        requests={"search": 3},
    )
    line = control.encode(status)
    assert line.count(b"\n") == 1
    assert control.parse_answer(line) == status


def test_unknown_fields_of_a_newer_side_are_ignored():
    assert control.parse_request(b'{"kind": "ping", "colour": "red"}') == control.Ping()


@pytest.mark.parametrize("line", [b"", b"{}", b'{"kind": "dance"}', b"\xff", b"[]"])
def test_anything_else_is_refused(line):
    with pytest.raises(pydantic.ValidationError):
        control.parse_request(line)


def test_a_held_op_is_not_pending():
    assert control.QueueStatus(waiting=2, running=1, held=5).pending == 3


def test_ready_is_success():
    assert ready.parse_ready_line(ready.ready_line()) == (0, "")
    assert ready.parse_ready_line(ready.ready_line("Nobody\n answers.")) == (0, "Nobody answers.")


def test_failure_is_one_line():
    line = ready.error_line("It is\nnot there.", 3)
    assert line.count("\n") == 1
    assert ready.parse_ready_line(line) == (3, "It is not there.")


@pytest.mark.parametrize("line", ["", "READ", "ERROR", "ERROR x y\n", "ERROR 3\n"])
def test_silent_exit_is_a_failed_start(line):
    assert ready.parse_ready_line(line) == (1, "")
