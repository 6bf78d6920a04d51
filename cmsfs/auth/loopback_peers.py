"""Finds which user and process own the other end of a loopback connection.

Rule: only the kernel's tables count; a connection that is not found there is not ours.
"""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

# Every TCP socket of this machine, with its user.  An IPv6 socket may carry IPv4 (mapped addresses).
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED = "0000000000000000FFFF0000"


Address = tuple[str, int]


def is_ours(ours: Address, theirs: Address) -> bool:
    """Whether the other end of a connection over 127.0.0.1 belongs to this user or to root.

    True if the kernel provides no such tables.
    """
    tables = [Path(name) for name in _TABLES if Path(name).exists()]
    if not tables:
        return True
    here, there = _hex(ours), _hex(theirs)
    return any(user in (0, os.getuid()) for table in tables for user in _users(table, there, here))


def _users(table: Path, local: str, remote: str) -> Iterator[int]:
    """Yield the user ids of open sockets with these two ends."""
    ends = {(local, remote), (_MAPPED + local, _MAPPED + remote)}
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        # A closed socket has no inode, and is listed with uid 0.
        if (fields[1], fields[2]) in ends and fields[9] != "0":
            yield int(fields[7])


def _hex(address: Address) -> str:
    """Format an address as the tables do: its bytes as a hexadecimal number in host byte order, and the
    port."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
