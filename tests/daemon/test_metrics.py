"""Figures for Prometheus: where they are asked for, what they say, and what they do not."""

import functools
import socket
import stat
from datetime import UTC, datetime

import pytest
import trio

from cmsfs.ipc import attention, control, diagnostics
from daemon import metrics

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def status():
    op = attention.PendingChange(
        seq=1, kind="upload", path="/Private/plan.txt", state="held", attempts=1, error="no"
    )
    return control.DriveStatus(
        account="work",
        profile="p",
        mountpoint="/mnt/drive",
        pid=1,
        version="1",
        started=NOW,
        health=diagnostics.HealthStatus(state="offline", since=NOW, reason="cut"),
        queue=control.QueueStatus(waiting=3, running=1, held=1, bytes_pending=12345678901, ops=[op]),
        requests={"read": 7, "upload": 2},
        last_poll=NOW,
    )


async def ask(stream, request=b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"):
    async with stream:
        await stream.send_all(request)
        return b"".join([chunk async for chunk in stream]).decode()


async def _status():
    return status()


def test_metrics_are_valid_and_anonymous():
    text = metrics.render(status())
    assert text.endswith("\n")
    lines = text.splitlines()
    assert 'cmsfs_connection{state="offline"} 1' in lines
    assert 'cmsfs_connection{state="online"} 0' in lines
    assert 'cmsfs_changes{state="waiting"} 3' in lines
    assert "cmsfs_unsent_bytes 12345678901" in lines
    assert 'cmsfs_requests_total{purpose="read"} 7' in lines
    named = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    assert named == {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
    for hidden in ("plan", "work", "/mnt"):
        assert hidden not in text


async def test_a_unix_socket_answers_this_user(tmp_path, nursery):
    path = tmp_path / "metrics.sock"
    nursery.start_soon(metrics.serve, str(path), _status)
    await trio.testing.wait_all_tasks_blocked()
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    answer = await ask(await trio.open_unix_socket(path))
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert answer.endswith(metrics.render(status()))
    other = await ask(await trio.open_unix_socket(path), b"GET /other HTTP/1.1\r\n\r\n")
    assert other.startswith("HTTP/1.1 404")


async def test_a_port_of_this_machine(nursery):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nursery.start_soon(functools.partial(metrics.serve, f"127.0.0.1:{port}", _status))
    await trio.testing.wait_all_tasks_blocked()
    assert "cmsfs_items" in await ask(await trio.open_tcp_stream("127.0.0.1", port))


@pytest.mark.parametrize("where", ["0.0.0.0:9464", "example.com:1", "9464x", "/nowhere/at/all"])
async def test_metrics_off_loopback_are_refused(where, expect_log):
    expect_log("metrics cannot be served")
    await metrics.serve(where, _status)
