"""Finds the user at the other end of a loopback connection, as `SO_PEERCRED` does for a Unix socket.

Rule: an unknown peer is no user.
"""

import sys
from pathlib import Path

TABLE = Path("/proc/net/tcp")


def owner(client: tuple[str, int], server: tuple[str, int], table: Path = TABLE) -> int | None:
    """Return the uid of the socket connected from `client` to `server`, both IPv4; None if there is none.

    Blocks while the kernel lists its connections.
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
    """Return an address as the kernel lists it: its four bytes as an integer in native byte order."""
    host, port = address
    number = int.from_bytes(bytes(map(int, host.split("."))), sys.byteorder)
    return f"{number:08X}:{port:04X}"
