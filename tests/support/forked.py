"""Starts of cmsfs's programs that do not load it each time: `forkserver`, which has it loaded, forks.

`install()` has `subprocess` do that for `[sys.executable, "-m", "cmsfs", ...]` and the daemon's programs,
in the tests and in what they start.  With any other option of Python (`-B`, say), or where Python's own
variables are set otherwise, a program is started as ever.

`script(module)` is that for a shell: `forked_stand_in`, a program that starts one, passes signals on to it
and ends like it.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PERSON = "tests.support.browser_person"  # who logs in
CRASHING = "tests.support.crashing_service"
DISK = "tests.support.forgetful_disk"


OURS = (PERSON, CRASHING, DISK)  # modules, not packages

MODULES = {"cmsfs", "daemon", "daemon.fsck", *OURS}

_HERE = Path(__file__).parent

# The environment that is shown of a process must find room where the server's own first one was.
_ROOM = "_" * 100_000

_Plain = subprocess.Popen

# Read before the first line of a program runs, which a fork comes too late for.
_EARLY = ("PYTHON", "LC_", "LANG")


class Server:
    """The process that has everything loaded; it is started when it is first wanted, unless `path` has it."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._early = _early(os.environ)

    def has(self, env: Mapping[str, str]) -> bool:
        """Whether a program with this environment can come from there."""
        return _early(env) == self._early

    def path(self) -> str:
        """Where it listens; it answers as soon as it has everything loaded."""
        if self._path is None:
            self._path = f"{tempfile.mkdtemp()}/s"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self._path)
            listener.listen(100)
            command = [sys.executable, "-P", str(_HERE / "forkserver.py"), str(listener.fileno())]
            self._process = _Plain(
                command,
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                # Of a test's own folders it knows nothing: those are for what is forked.
                env={
                    "ROOM": _ROOM,
                    **_early(os.environ),
                    **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
                },
                start_new_session=True,
            )
            listener.close()
        return self._path

    def stop(self) -> None:
        """End it; what was forked goes on."""
        if self._process is not None:
            self._process.communicate()
            assert self._path
            shutil.rmtree(Path(self._path).parent)


def _early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_EARLY)}


def encode(request: dict[str, Any]) -> bytes:
    """What asks the server for a process: the length, and that many bytes."""
    data = marshal.dumps(request)
    return len(data).to_bytes(4, "big") + data


server = Server()


class Popen(_Plain):  # type: ignore[type-arg]
    """A process, forked if that can be."""

    _ended = -1  # a descriptor that says how it ended
    _said = b""

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
        words = _words(args) if is_plain and rest[7:11] == (None, None, None, -1) else None
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
            if sent < len(data):  # a process that was asked for whole may have ended, and its server hung up
                connection.sendall(data[sent:])
            self._ended = connection.detach()
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = self._line(None)

    def _line(self, timeout: float | None) -> int | None:
        """The number that the server says next; None if that did not come in time."""
        while b"\n" not in self._said:
            if not select.select([self._ended], [], [], timeout)[0]:
                return None
            more = os.read(self._ended, 100)
            assert more, "the server of forks has ended"
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return int(line)

    def _internal_poll(self, *rest: Any, **named: Any) -> int | None:
        if self._ended == -1:
            return super()._internal_poll(*rest, **named)  # type: ignore[misc]
        # Somebody who waits without an end must not keep others from asking, or from sending a signal.
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                with suppress(subprocess.TimeoutExpired):
                    self._end(0)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        if self._ended == -1:
            return super()._wait(timeout)  # type: ignore[misc]
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self._end(timeout)
        return self.returncode

    def _end(self, timeout: float | None) -> None:
        if (code := self._line(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.returncode = code
        os.close(self._ended)

    def __del__(self, *rest: Any, **named: Any) -> None:
        if self._ended != -1 and self.returncode is None:
            os.close(self._ended)
        super().__del__(*rest, **named)


def _words(args: Any) -> list[str] | None:
    """The command, if it is one of a program that can be forked."""
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
    """From now on programs are forked if they can be."""
    subprocess.Popen = Popen  # type: ignore[misc]


def script(module: str) -> str:
    """The line of a shell script that becomes this program, with the script's arguments."""
    words = [sys.executable, "-I", "-S", str(_HERE / "forked_stand_in.py"), server.path(), module]
    return f'exec {shlex.join(words)} "$@"'
