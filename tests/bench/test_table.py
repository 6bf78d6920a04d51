"""The table of benchmarks: its line carries every byte, its results go on where they ended."""

import socket
import subprocess
import sys
import threading
import time

from tests.bench.table.comparison import Comparison, ShownFigure
from tests.bench.table.results import Measured, Results
from tests.bench.table.stage import started

ROUND_TRIP = 0.4
SIZE = 3 * 1024 * 1024 + 7


def test_the_line_carries_every_byte_a_round_trip_later_and_takes_who_comes_as_by_a_proxy():
    data = bytes(range(256)) * (SIZE // 256) + b"x" * (SIZE % 256)
    with socket.create_server(("127.0.0.1", 0)) as service:
        echo = threading.Thread(target=_echo, args=(service,))
        echo.start()
        command = [sys.executable, "-m", "tests.bench.table.line", str(service.getsockname()[1])]
        with started([*command, "--round-trip", str(ROUND_TRIP)], subprocess.DEVNULL) as line:
            port = int(line.stdout.readline())
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(b"CONNECT anybody:443 HTTP/1.1\r\n\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 200")
                sender = threading.Thread(target=_send, args=(client, data))
                began = time.monotonic()
                sender.start()
                got = client.recv(1024 * 1024)
                took = time.monotonic() - began
                while piece := client.recv(1024 * 1024):
                    got += piece
                sender.join()
        echo.join()
    assert got == data
    # There, and back again: the connection's own round trip, and that of its bytes.
    assert took >= 2 * ROUND_TRIP


def _send(sock, data):
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def _echo(service):
    sock = service.accept()[0]
    with sock:
        while piece := sock.recv(65536):
            sock.sendall(piece)


def test_a_table_goes_on_with_the_rounds_that_an_earlier_run_has_made(tmp_path):
    row = Comparison("find", ("rclone", "cmsfs"), [ShownFigure("seconds", "find", "s")], play=None)
    first = Results(tmp_path / "results.jsonl", 0.5)
    for who, number, took in (("cmsfs", 1, 2.0), ("cmsfs", 2, 9.0), ("cmsfs", 3, 4.0), ("rclone", 1, 40.0)):
        first.add(Measured("find", who, number, 0.5, {"seconds": took}, 1.0, 80.0, 1.0, "2026-01-01 00:00"))
    again, other = (Results(tmp_path / "results.jsonl", scale) for scale in (0.5, 1.0))
    assert again.has("find", "cmsfs", 3)
    assert not again.has("find", "rclone", 2)
    assert not other.has("find", "cmsfs", 1)
    assert "| find |  |  |  | 40 s | 4 s |  | 10 x | 3 |" in again.table([row])
