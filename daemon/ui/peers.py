"""Tells whose process is at the other end of a loopback connection, as `SO_PEERCRED` does for a Unix socket.

Rule: who is not found is nobody.
"""

import sys
from pathlib import Path

TABLE = Path("/proc/net/tcp")


def owner(client: tuple[str, int], server: tuple[str, int], table: Path = TABLE) -> int | None:
    """The user (uid) whose socket is connected from `client` to `server`, both of IPv4, if there is one.

    Blocks for as long as the kernel takes to list its connections.
    """
    wanted = [_row(client), _row(server)]
    with table.open() as lines:
        next(lines, None)
        for line in lines:
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[7])
    return None


def _row(address: tuple[str, int]) -> str:
    """An address as the kernel lists it: its four bytes as a number of this machine."""
    host, port = address
    number = int.from_bytes(bytes(map(int, host.split("."))), sys.byteorder)
    return f"{number:08X}:{port:04X}"
