"""Fast starts of cmsfs's programs: `forkserver` has all modules loaded and forks for each start.

`install()` makes `subprocess` use it for `[sys.executable, "-m", "cmsfs", ...]` and the daemon's programs, in
the tests and in what they start.  With any other option of Python (`-B`, say), or with different values of
Python's own environment variables, a program is started normally.

`script(module)` is the same for a shell: it runs `forked_stand_in`, which starts a forked process, forwards
signals to it and exits as it does.
"""

import marshal
import os
import resource
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PERSON = "tests.support.browser_person"  # the user who logs in
CRASHING = "tests.support.crashing_service"
DISK = "tests.support.forgetful_disk"


TEST_MODULES = (PERSON, CRASHING, DISK)  # modules, not packages

MODULES = {"cmsfs", "daemon", "daemon.fsck", *TEST_MODULES}

_HERE = Path(__file__).parent

# /proc/PID/environ shows the memory of the server's initial environment: this reserves space there.
_ROOM = "_" * 100_000

_Plain = subprocess.Popen

# Variables that Python reads at start-up, which a fork cannot change.
_EARLY = ("PYTHON", "LC_", "LANG")


class Server:
    """The fork server; started at first use, unless it already listens at `path`."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._early = _early(os.environ)
        self._starting = threading.Lock()

    def has(self, env: Mapping[str, str]) -> bool:
        """Return whether a program with this environment can be forked."""
        return _early(env) == self._early

    def path(self) -> str:
        """Return the path of its socket, starting it if needed; it answers once everything is loaded."""
        with self._starting:
            if self._path is None:
                self._path = self._start()
            return self._path

    def _start(self) -> str:
        path = f"{tempfile.mkdtemp()}/s"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(100)
        command = [sys.executable, "-P", str(_HERE / "forkserver.py"), str(listener.fileno())]
        self._process = _Plain(
            command,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            # The server must not see a test's own folders; forked processes get theirs with the request.
            env={
                "ROOM": _ROOM,
                **_early(os.environ),
                **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
            },
            start_new_session=True,
        )
        listener.close()
        return path

    def stop(self) -> None:
        """Stop it; forked processes continue."""
        if self._process is not None:
            self._process.communicate()
            assert self._path
            shutil.rmtree(Path(self._path).parent)


def _early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_EARLY)}


def encode(request: dict[str, Any]) -> bytes:
    """Encode a request to the server: the length, and that many bytes."""
    data = marshal.dumps(request)
    return len(data).to_bytes(4, "big") + data


server = Server()


class Popen(_Plain):  # type: ignore[type-arg]
    """A process that is forked by the server if possible."""

    _status_fd = -1  # socket that receives the exit status
    _received = b""

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: bool,
        *rest: Any,
    ) -> None:
        pipes = rest[:6]  # of input, output, errors: the two ends of each
        env = dict(os.environ if env is None else env)
        is_plain = executable is None and preexec_fn is None and close_fds and not shell
        words = _forkable_words(args) if is_plain and rest[7:11] == (None, None, None, -1) else None
        if words is None or not server.has(env):
            super()._execute_child(  # type: ignore[misc]
                *(args, executable, preexec_fn, close_fds, pass_fds, cwd, env),
                *(startupinfo, creationflags, shell, *rest),
            )
            return
        standard = [pipes[0], pipes[3], pipes[5]]
        fds = {at: at if fd == -1 else fd for at, fd in enumerate(standard)}
        fds = {at: fd for at, fd in fds.items() if _is_open(fd)} | {fd: fd for fd in pass_fds}
        request = {
            "module": words[words.index("-m") + 1],
            "argv": words[words.index("-m") + 1 :],
            "is_safe_path": "-P" in words,
            "env": {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()},
            "cwd": os.fsdecode(cwd or Path.cwd()),
            "new_session": bool(rest[11]),
            "umask": _umask(),
            "limits": [(limit, resource.getrlimit(limit)) for limit in range(resource.RLIMIT_RTTIME + 1)],
            "fds": list(fds),
        }
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(server.path())
            data = encode(request)
            sent = socket.send_fds(connection, [data], list(fds.values()))
            # Nothing may follow a complete request: its process may have ended and closed the connection.
            if sent < len(data):
                connection.sendall(data[sent:])
            self._status_fd = connection.detach()
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = self._read_number(None)

    def _read_number(self, timeout: float | None) -> int | None:
        """Return the next number from the server; None at the timeout."""
        while b"\n" not in self._received:
            if not select.select([self._status_fd], [], [], timeout)[0]:
                return None
            more = os.read(self._status_fd, 100)
            assert more, "the server of forks has ended"
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return int(line)

    def _internal_poll(self, *rest: Any, **named: Any) -> int | None:
        if self._status_fd == -1:
            return super()._internal_poll(*rest, **named)  # type: ignore[misc]
        # A thread in wait() must not block others that poll or send a signal.
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                with suppress(subprocess.TimeoutExpired):
                    self._end(0)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        if self._status_fd == -1:
            return super()._wait(timeout)  # type: ignore[misc]
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self._end(timeout)
        return self.returncode

    def _end(self, timeout: float | None) -> None:
        if (code := self._read_number(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.returncode = code
        os.close(self._status_fd)

    def __del__(self, *rest: Any, **named: Any) -> None:
        if self._status_fd != -1 and self.returncode is None:
            os.close(self._status_fd)
        super().__del__(*rest, **named)


def _forkable_words(args: Any) -> list[str] | None:
    """Return the command's words if its program can be forked, else None."""
    if isinstance(args, str | bytes | os.PathLike) or not isinstance(args, Sequence):
        return None
    words = [os.fsdecode(word) for word in args]
    options = words[1:2] if words[1:2] == ["-P"] else []
    begin = [sys.executable, *options, "-m"]
    known = words[: len(begin)] == begin and len(words) > len(begin) and words[len(begin)] in MODULES
    return words if known else None


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("\nUmask:")[2].split()[0], 8)


def install() -> None:
    """Replace `subprocess.Popen`, so that programs are forked if possible."""
    subprocess.Popen = Popen  # type: ignore[misc]


def script(module: str) -> str:
    """Return a line for a shell script that runs this program with the script's arguments."""
    words = [sys.executable, "-I", "-S", str(_HERE / "forked_stand_in.py"), server.path(), module]
    return f'exec {shlex.join(words)} "$@"'
