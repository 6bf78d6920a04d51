"""A cheap simulated link to the service: TCP with latency and a rate limit, with bytes moved by the kernel.

`python -m tests.bench.table.line PORT [--round-trip 0.04] [--rate 125e6]` prints the port it listens at, and
ends with its stdin.  What comes in is spliced into pipes and out of them when it is due, so that no byte
passes through Python, and a gigabyte a second costs a part of one processor.  As in `tests/support/proxy.py`
bytes come later, not slower; a rate is shared by all connections, each direction having its own, and what one
connection may have under way is bounded as by a receive window.

A client that begins with CONNECT is led to the service whatever it names, as by a proxy: so programs arrive
that know hosts of their own only.
"""

import argparse
import fcntl
import heapq
import os
import select
import socket
import sys
import time
from collections import deque

PIPE = 1024 * 1024
# The largest receive window of Linux (the last figure of tcp_rmem).
WINDOW = 6 * 1024 * 1024
# What waits before a capped line, as in a good router.
QUEUE_SECONDS = 0.005

_MOVE = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_READ, _WRITE = select.EPOLLIN, select.EPOLLOUT


class DelayLine:
    """The event loop: sockets with epoll, timers in a heap."""

    def __init__(self, port: int, round_trip: float, rate: float) -> None:
        self.half, self.rate, self._port = round_trip / 2, rate, port
        # Connections of a capped line take turns at short chunks.
        self.most = int(max(min(PIPE, rate * 0.001), 64 * 1024)) if rate else PIPE
        self.free_at = {"up": 0.0, "down": 0.0}
        self._epoll = select.epoll()
        self._ends: dict[int, tuple[_Way, _Way]] = {}  # a socket: the way that begins there, that ends there
        self._pipes: list[tuple[int, int]] = []
        self._moments: list[tuple[float, int, _Way]] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]

    def at(self, moment: float, way: "_Way") -> None:
        heapq.heappush(self._moments, (moment, id(way), way))

    def pipe(self) -> tuple[int, int]:
        if self._pipes:
            return self._pipes.pop()
        made = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.fcntl(made[0], fcntl.F_SETPIPE_SZ, PIPE)
        return made

    def give_back(self, pipe: tuple[int, int]) -> None:
        self._pipes.append(pipe)

    def run(self) -> None:
        """Run until stdin is closed."""
        self._epoll.register(self._listener, _READ)
        self._epoll.register(0, _READ)
        while True:
            wait = max(self._moments[0][0] - time.monotonic(), 0) if self._moments else None
            # With select: epoll's timeouts are in whole milliseconds.
            select.select([self._epoll], [], [], wait)
            for fd, events in self._epoll.poll(0):
                if fd == 0:
                    return
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._ends:
                    begins, ends = self._ends[fd]
                    if events & ~_WRITE:
                        begins.take()
                    if events & _WRITE:
                        ends.give()
            now = time.monotonic()
            while self._moments and self._moments[0][0] <= now:
                way = heapq.heappop(self._moments)[2]
                if way.open:
                    way.due()

    def watch(self, sock: socket.socket) -> None:
        """Register the events that both directions of a socket wait for."""
        begins, ends = self._ends[sock.fileno()]
        wanted = (_READ if begins.wants() else 0) | (_WRITE if ends.blocked else 0)
        self._epoll.modify(sock, wanted)

    def end(self, way: "_Way") -> None:
        """Close a connection in both directions."""
        for sock in (way.source, way.target):
            if sock.fileno() in self._ends:
                for one in self._ends.pop(sock.fileno()):
                    one.drop()
                self._epoll.unregister(sock)
                sock.close()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        # Blocking: whoever connects speaks at once, be it TLS or CONNECT.
        client.setblocking(True)
        if client.recv(7, socket.MSG_PEEK) == b"CONNECT":
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        server = socket.create_connection(("127.0.0.1", self._port))
        ready = time.monotonic() + 2 * self.half  # the connection's own round trip
        up = _Way(self, client, server, "up", ready)
        down = _Way(self, server, client, "down", ready)
        for sock, pair in ((client, (up, down)), (server, (down, up))):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends[sock.fileno()] = pair
            self._epoll.register(sock, _READ)


class _Way:
    """One direction of one connection."""

    def __init__(
        self, line: DelayLine, source: socket.socket, target: socket.socket, name: str, ready: float
    ) -> None:
        self.source, self.target, self.open, self.blocked = source, target, True, False
        self._line, self._name, self._ready = line, name, ready
        self._ended = self._held = False
        self._size = 0
        self._flight: deque[tuple[float, tuple[int, int] | None, int]] = deque()
        self._unconfirmed: deque[tuple[float, int]] = deque()

    def wants(self) -> bool:
        return not self._ended and not self._held and self._size < WINDOW

    def take(self) -> None:
        """Read what has arrived at the sending end."""
        if not self.wants():
            self._line.watch(self.source)
            return
        pipe = self._line.pipe()
        try:
            count = os.splice(self.source.fileno(), pipe[1], self._line.most, flags=_MOVE)
        except BlockingIOError:
            self._line.give_back(pipe)
            return
        except OSError:
            self._line.give_back(pipe)
            self._line.end(self)
            return
        left = max(time.monotonic(), self._ready)
        if not count:
            self._ended = True
            self._line.give_back(pipe)
            self._flight.append((left + self._line.half, None, 0))
        else:
            if self._line.rate:
                free = self._line.free_at
                left = free[self._name] = max(left, free[self._name]) + count / self._line.rate
                if left - QUEUE_SECONDS > time.monotonic():
                    self._held = True
                    self._line.at(left - QUEUE_SECONDS, self)
            self._size += count
            self._flight.append((left + self._line.half, pipe, count))
        self._line.at(left + self._line.half, self)
        self._line.watch(self.source)

    def due(self) -> None:
        """Handle a timer: continue reading, forward bytes, or count an acknowledgement."""
        self._held = False
        now = time.monotonic()
        while self._unconfirmed and self._unconfirmed[0][0] <= now:
            self._size -= self._unconfirmed.popleft()[1]
        self._line.watch(self.source)
        if not self.blocked:
            self.give()

    def give(self) -> None:
        """Forward the bytes that are due."""
        self.blocked = False
        try:
            while self._flight and self._flight[0][0] <= time.monotonic() and not self.blocked:
                at, pipe, left = self._flight[0]
                if pipe is None:
                    self.target.shutdown(socket.SHUT_WR)
                    self._flight.popleft()
                    continue
                count = os.splice(pipe[0], self.target.fileno(), left, flags=_MOVE)
                back = time.monotonic() + self._line.half
                self._unconfirmed.append((back, count))
                self._line.at(back, self)
                if count < left:
                    self._flight[0] = (at, pipe, left - count)
                else:
                    self._flight.popleft()
                    self._line.give_back(pipe)
        except BlockingIOError:
            self.blocked = True
        except OSError:
            self._line.end(self)
            return
        self._line.watch(self.target)
        if self._ended and not self._flight and self._other()._ended and not self._other()._flight:
            self._line.end(self)

    def _other(self) -> "_Way":
        return self._line._ends[self.target.fileno()][0]

    def drop(self) -> None:
        """Drop the bytes in flight."""
        self.open = False
        for _, pipe, _ in self._flight:
            for fd in pipe or ():
                os.close(fd)
        self._flight.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description="A line of some latency; ends with its stdin.")
    parser.add_argument("port", type=int)
    parser.add_argument("--round-trip", type=float, default=0.04, help="seconds")
    parser.add_argument("--rate", type=float, default=0, help="bytes a second, each way; 0: what it can")
    wanted = parser.parse_args()
    line = DelayLine(wanted.port, wanted.round_trip, wanted.rate)
    sys.stdout.write(f"{line.port}\n")
    sys.stdout.flush()
    line.run()


if __name__ == "__main__":
    main()
