"""Starts a forked program from a shell: `python -I -S forked_stand_in.py SOCKET MODULE ...`.

It requests the program from the `forkserver` at the socket, forwards signals to it and exits as it does.  A
shell starts it for each command, so it imports only built-in modules.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import resource
import sys

SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def main(path: str, module: str, *arguments: str) -> None:
    fds = [fd for fd in (0, 1, 2) if _is_open(fd)]
    umask = os.umask(0)
    os.umask(umask)
    request = {
        "module": module,
        "argv": [module, *arguments],
        "is_safe_path": False,
        "env": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109
        "new_session": False,
        "umask": umask,
        "limits": [(limit, resource.getrlimit(limit)) for limit in range(resource.RLIMIT_RTTIME + 1)],
        "fds": fds,
    }
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(path)
    data = marshal.dumps(request)
    data = len(data).to_bytes(4, "big") + data
    rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    sent = server.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    while sent < len(data):
        sent += server.send(data[sent:])
    said = b""
    while b"\n" not in said:
        said += server.recv(100)
    line, _, said = said.partition(b"\n")
    pid = int(line)
    for number in SIGNALS:
        _signal.signal(number, lambda number, _: os.kill(pid, number))
    while b"\n" not in said:
        said += server.recv(100)
    code = int(said)
    if code < 0:
        _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
