"""The process that keeps the drive's connection open while the daemon dies, and starts the next one.

It is to the daemon what systemd is where the drive is a unit: it hears `sd_notify` messages, keeps the
descriptors that come with them (`FDSTORE=1`), and gives them to the next daemon (`LISTEN_FDS`).  So the
daemon knows one way only.  It is run as a program of its own with nothing but the standard library's
built-in parts.

    holder.py SOCKET COMMAND...

Rule: it ends with the daemon, and as it did, unless that died with a drive mounted: then it starts another.
One that dies again and again is left alone, and with it the connection: programs get an error.
"""

# Without `pathlib`, `subprocess` and `array`, whose imports would be most of its memory.
# ruff: noqa: PTH108

import _socket
import os
import select
import signal
import sys
import time

CONNECTION = "connection"

# So many starts in so long, and no more.
STARTS = 20
WITHIN_SECONDS = 60.0

# A daemon that takes over a drive and is not there after so long never will be; programs wait meanwhile.
READY_SECONDS = 120.0

_FIRST_FD = 3
_MOST_FDS = 16
_LONGEST = 65536


class Holder:
    """One daemon at a time, and what it has given to be kept."""

    def __init__(self, address: str, command: "list[str]") -> None:
        self._address = address
        self._command = command
        self._kept: dict[str, int] = {}
        self._begun: list[float] = []
        self._pid = self._watched = -1
        self._is_ready = self._is_ending = False
        self._heard = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            os.unlink(address)
        except FileNotFoundError:
            pass
        self._heard.bind(address)
        os.set_inheritable(self._heard.fileno(), False)
        self._signals, wakeup = os.pipe()
        for end in (self._signals, wakeup):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakeup)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)

    def run(self) -> int:
        """Serve until the last daemon has ended; its exit code."""
        self._start()
        while True:
            poll = select.poll()
            for fd in (self._heard.fileno(), self._signals, self._watched):
                poll.register(fd, select.POLLIN)
            if CONNECTION in self._kept:
                poll.register(self._kept[CONNECTION], 0)
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if self._kept.get(CONNECTION) in ready:
                self._drop_all()  # the drive is unmounted
            if self._signals in ready:
                self._pass_on_signals()
            if self._heard.fileno() in ready:
                self._hear()
            if self._watched in ready:
                # What it said at last.
                self._hear()
                code = self._ended()
                if self._is_ending or CONNECTION not in self._kept:
                    return code
                if not self._may_start():
                    _tell("the daemon dies again and again; the drive is given up")
                    return code or 1
                _tell("the daemon has died; another takes the drive over")
                self._start()
            elif self._patience() == 0:
                _tell("the daemon does not get ready; it is ended")
                os.kill(self._pid, signal.SIGKILL)
                self._is_ending = True

    # ---- the daemon ----

    def _start(self) -> None:
        self._reap()
        self._begun.append(time.monotonic())
        self._is_ready = self._is_ending = False
        given = dict(self._kept)
        self._pid = os.fork()
        if not self._pid:
            try:
                self._execute(given)
            finally:
                os._exit(127)
        self._watched = os.pidfd_open(self._pid)
        self._forget_launcher()

    @staticmethod
    def _reap() -> None:
        """Let go of those that had handed the drive to another."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def _execute(self, given: "dict[str, int]") -> None:
        """In the new process: become the daemon."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        environment = dict(os.environ)
        environment.update(NOTIFY_SOCKET=self._address, FDSTORE=str(_MOST_FDS))
        # First out of the way of the numbers that they get.
        moved = [os.dup2(fd, 100 + place, inheritable=False) for place, fd in enumerate(given.values())]
        for place, fd in enumerate(moved):
            os.dup2(fd, _FIRST_FD + place)
        if given:
            environment.update(
                LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)), LISTEN_FDNAMES=":".join(given)
            )
        os.execve(self._command[0], self._command, environment)

    def _forget_launcher(self) -> None:
        """Whoever waits for the first daemon to be ready hears of it from that alone."""
        if "--ready-fd" in self._command:
            place = self._command.index("--ready-fd")
            os.close(int(self._command[place + 1]))
            del self._command[place : place + 2]

    def _ended(self) -> int:
        os.close(self._watched)
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            return 0  # it came from an upgrade, and is nobody's child
        return (
            max(os.waitstatus_to_exitcode(status), 0) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        )

    def _may_start(self) -> bool:
        now = time.monotonic()
        self._begun = [at for at in self._begun if now - at < WITHIN_SECONDS]
        return len(self._begun) < STARTS

    def _patience(self) -> "int | None":
        """For how many milliseconds the daemon is waited for; None: for as long as it likes."""
        if self._is_ready or self._is_ending or not self._kept:
            return None
        return max(0, int(1000 * (self._begun[-1] + READY_SECONDS - time.monotonic())))

    # ---- what it says ----

    def _hear(self) -> None:
        while True:
            try:
                room = _socket.CMSG_LEN(4 * _MOST_FDS)
                data, ancillary, _, _ = self._heard.recvmsg(_LONGEST, room, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            descriptors = [
                int.from_bytes(rights[at : at + 4], sys.byteorder)
                for level, kind, rights in ancillary
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
                for at in range(0, len(rights) - len(rights) % 4, 4)
            ]
            self._take(dict(line.partition("=")[::2] for line in data.decode().splitlines()), descriptors)

    def _take(self, said: "dict[str, str]", descriptors: "list[int]") -> None:
        name = said.get("FDNAME", "stored")
        for fd in descriptors:
            os.set_inheritable(fd, False)
            if "FDSTORE" in said:
                self._drop(name)
                self._kept[name] = fd
            else:
                os.close(fd)
        if "FDSTOREREMOVE" in said:
            self._drop(name)
        if "READY" in said:
            self._is_ready = True
        if "STOPPING" in said:
            self._is_ending = True
        if said.get("MAINPID", "").isdigit():
            self._pid, self._is_ending = int(said["MAINPID"]), False
            os.close(self._watched)
            self._watched = os.pidfd_open(self._pid)

    def _pass_on_signals(self) -> None:
        for number in os.read(self._signals, 64):
            os.kill(self._pid, number)

    def _drop(self, name: str) -> None:
        if (fd := self._kept.pop(name, None)) is not None:
            os.close(fd)

    def _drop_all(self) -> None:
        for name in list(self._kept):
            self._drop(name)


def _tell(sentence: str) -> None:
    os.write(2, f"cmsfs-holder: {sentence}\n".encode())


def main() -> None:
    address, *command = sys.argv[1:]
    holder = Holder(address, command)
    try:
        code = holder.run()
    finally:
        os.unlink(address)
    sys.exit(code)


if __name__ == "__main__":
    main()
