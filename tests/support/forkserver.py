"""A server process with all of cmsfs loaded, which forks whenever a test starts one of its programs
(`forked`).

Most of the time of `python -m cmsfs status` is spent on loading Python modules.  A forked process already has
them, and otherwise is like a new one: with its own arguments, environment, working directory, descriptors,
limits and session, and it exits as Python does.

`python forkserver.py FD` serves that listening socket until standard input is closed.  A request is encoded
by `forked.encode`, its descriptors are sent with its first byte; the response is two lines: the process id,
then the exit status.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import io
import marshal
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import cmsfs.auth
import cmsfs.cli
import cmsfs.client
import daemon

# The programs must not be able to import the tests' modules.
sys.path.insert(0, str(Path(__file__).parent))
import cheap_passwords
import database_templates
import forked

sys.path.pop(0)

# A forked process first moves its descriptors up here, then to their final numbers.
HIGH = 1000


def load() -> None:
    """Load all modules that the programs use, also those that commands import on demand."""
    for package in (cmsfs.cli, cmsfs.auth, cmsfs.client, daemon):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):  # run later by `runpy`
                importlib.import_module(module.name)
    sys.path.append(str(Path(__file__).parents[2]))
    for name in forked.TEST_MODULES:
        importlib.import_module(name)
    cheap_passwords.install()
    database_templates.install()


def serve(listener: socket.socket) -> None:
    """Serve requests until standard input is closed."""
    load()
    gc.collect()
    gc.freeze()
    forked.server = forked.Server(listener.getsockname())
    forked.install()
    poll = select.poll()
    for fd in (0, listener.fileno()):
        poll.register(fd, select.POLLIN)
    children: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor of the process
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                return
            if fd == listener.fileno():
                connection, _ = listener.accept()
                pid = _fork(connection)
                process = os.pidfd_open(pid)
                poll.register(process, select.POLLIN)
                children[process] = pid, connection
                _send_number(connection, pid)
            else:
                poll.unregister(fd)
                os.close(fd)
                pid, connection = children.pop(fd)
                _send_number(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                connection.close()


def _send_number(connection: socket.socket, number: int) -> None:
    try:
        connection.sendall(b"%d\n" % number)
    except OSError:
        pass  # the requester is gone, the process continues


def _fork(connection: socket.socket) -> int:
    data, fds, _, _ = socket.recv_fds(connection, 65536, 100)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        if not (more := connection.recv(65536)):
            break  # the requester is gone: the child will fail to decode the request
        data += more
    pid = os.fork()
    if pid == 0:
        try:
            code = _run_request(marshal.loads(data[4:]), fds)
        except BaseException:
            traceback.print_exc()
            code = 255
        os._exit(code)
    for fd in fds:
        os.close(fd)
    return pid


def _run_request(request: dict[str, Any], fds: list[int]) -> int:
    """Turn this child into the requested process, run it and return its exit code."""
    held = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH) for fd in fds]
    os.closerange(0, HIGH)
    for target, fd in zip(request["fds"], held, strict=True):
        os.dup2(fd, target)
        os.close(fd)
    if request["new_session"]:
        os.setsid()
    for limit, values in request["limits"]:
        resource.setrlimit(limit, values)
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    _show_environment()
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        _open_standard(name, fd, mode)
    sys.argv[:] = request["argv"]
    if not request["is_safe_path"]:
        sys.path.insert(0, str(Path.cwd()))
    code = _run_module(request["module"])
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return code if _flush() else 120


def _run_module(module: str) -> int:
    if module in forked.TEST_MODULES:
        del sys.modules[module]  # `runpy` would warn that the module is already loaded
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        _flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _flush() -> bool:
    try:
        for file in (sys.stdout, sys.stderr):
            if file is not None and not file.closed:
                file.flush()
    except OSError:
        return False
    return True


def _open_standard(name: str, fd: int, mode: str) -> None:
    before = getattr(sys, f"__{name}__")
    try:
        raw = io.FileIO(fd, mode, closefd=False)
    except OSError:
        file = None
    else:
        buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
        file = io.TextIOWrapper(
            buffered,
            encoding=before.encoding,
            errors=before.errors,
            newline="\n" if mode == "w" else None,
            line_buffering=name == "stderr" or raw.isatty(),
        )
        file.mode = mode  # type: ignore[misc]
    setattr(sys, name, file)
    setattr(sys, f"__{name}__", file)


def _show_environment() -> None:
    """Make /proc/PID/environ show the environment, by which tests find their processes.

    The kernel shows the memory of the initial environment; its variable `ROOM` reserved space there.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    block = b"".join(b"%s=%s\0" % pair for pair in os.environb.items())
    assert len(block) <= end - start
    ctypes.memmove(start, block.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
