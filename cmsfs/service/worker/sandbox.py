"""Sandboxes this process for good (Landlock): access only to the files it needs, no network.

The worker sandboxes itself before it opens untrusted documents.  On kernels without Landlock (older than
5.13, or built without it) it runs with the user's normal rights, and `cmsfs doctor` reports that.

Rule: we request only what the running kernel supports; an older one never makes this fail.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

# System call numbers, the same on every architecture.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1  # flag: return the Landlock version
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE, _TRUNCATE = 1 << 5, 1 << 8, 1 << 14

# The number of file access rights by Landlock version.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_LATEST_RIGHTS = 16
_NETWORK = 0b11  # TCP bind and connect; since version 4
_SCOPES = 0b11  # abstract sockets and signals; since version 6

# Libraries, fonts, time zones: the system files that programs read.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/opt", "/nix/store", "/gnu/store")


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    if platform.system() != "Linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def restrict(*, reads: Iterable[Path], writes: Iterable[Path]) -> bool:
    """Restrict this process to the system's files, `reads` and `writes`; return False if the kernel cannot.

    Blocks the network, too, where the kernel supports it.
    """
    known = version()
    if not known:
        return False
    libc = _libc()
    handled = (1 << _RIGHTS.get(known, _LATEST_RIGHTS)) - 1
    rules = _Ruleset(handled, _NETWORK if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 8 if known < 4 else 16 if known < 6 else 24
    ruleset = libc.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    try:
        look = _EXECUTE | _READ | _LIST
        own = {*_SYSTEM, sys.prefix, sys.base_prefix, *sys.path}
        wanted = [(Path(one), look) for one in own if one]
        wanted += [(one, _READ | _LIST) for one in reads]
        wanted += [(one, _READ | _LIST | _WRITE | _REMOVE | _MAKE | _TRUNCATE) for one in writes]
        wanted += [(Path(one), _READ | _WRITE) for one in ("/dev/null", "/dev/urandom")]
        for path, rights in wanted:
            _allow(libc, ruleset, path, rights & handled)
        if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
            return False
        return bool(libc.syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path needs no right
    try:
        if not path.is_dir():
            rights &= _EXECUTE | _READ | _WRITE | _TRUNCATE
        rule = _Beneath(rights, place)
        libc.syscall(
            _ADD,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
