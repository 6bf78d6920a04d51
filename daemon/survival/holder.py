"""Holds the drive's descriptors while the daemon is down after a crash, and starts the next daemon.

It does what systemd does for a drive that is a unit: it receives `sd_notify` messages, stores the
descriptors sent with them (`FDSTORE=1`), and passes them to the next daemon (`LISTEN_FDS`).  The daemon
therefore uses one protocol only, with one message more: `SPARE=PID`, with a socket and the pidfd of a process
that waits to be the next daemon (`spare`).  The holder runs as a program of its own and imports only built-in
parts of the standard library.

    holder.py SOCKET COMMAND...

Rule: it exits when the daemon exits, with the daemon's exit code, unless the daemon died with a drive
mounted: then it starts another.  If the daemon crashes repeatedly, the holder gives up and closes the
connection: programs get an error.
"""

# `pathlib`, `subprocess` and `array` are not imported: they would take most of its memory.
# ruff: noqa: PTH108

import _socket
import os
import select
import signal
import sys
import time

CONNECTION = "connection"

# At most this many starts within this time.
STARTS = 20
WITHIN_SECONDS = 60.0

# Time limit for a daemon that takes over a drive to get ready; programs wait meanwhile.
READY_SECONDS = 120.0

# The message by which a daemon leaves a spare; in the environment, that there is somebody who keeps it.
SPARE = "SPARE"
KEEPS_SPARE = "HOLDER_KEEPS_SPARE"

MOST_FDS = 16
LONGEST = 65536
_FIRST_FD = 3


class Holder:
    """Supervises one daemon at a time and stores its descriptors."""

    def __init__(self, address: str, command: "list[str]") -> None:
        self._address = address
        self._command = command
        self._stored_fds: dict[str, int] = {}
        self._start_times: list[float] = []
        self._pid = self._pidfd = -1
        # PID, socket and pidfd of the process that is to be the next daemon.
        self._spare: tuple[int, int, int] | None = None
        self._is_ready = self._is_stopping = False
        self._notify_socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            os.unlink(address)
        except FileNotFoundError:
            pass
        self._notify_socket.bind(address)
        os.set_inheritable(self._notify_socket.fileno(), False)
        self._signals, wakeup = os.pipe()
        for end in (self._signals, wakeup):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakeup)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)

    def run(self) -> int:
        """Serve until the last daemon has exited; return its exit code."""
        self._start()
        while True:
            poll = select.poll()
            for fd in (self._notify_socket.fileno(), self._signals, self._pidfd):
                poll.register(fd, select.POLLIN)
            if CONNECTION in self._stored_fds:
                poll.register(self._stored_fds[CONNECTION], 0)
            ready = {fd for fd, _ in poll.poll(self._ready_timeout_ms())}
            pid, is_over = self._pid, self._pidfd in ready
            if self._stored_fds.get(CONNECTION) in ready:
                self._drop_all()  # the drive is unmounted
            if self._signals in ready:
                self._forward_signals()
            if self._notify_socket.fileno() in ready:
                self._receive_messages()
            if is_over:
                self._receive_messages()  # its last messages
            # They may have named the process that serves now; its descriptor can have the old one's number.
            if is_over and self._pid == pid:
                code = self._wait_for_exit()
                if self._is_stopping or CONNECTION not in self._stored_fds:
                    return code
                if not self._may_restart():
                    _log("the daemon dies again and again; the drive is given up")
                    return code or 1
                _log("the daemon has died; another takes the drive over")
                self._start()
            elif self._ready_timeout_ms() == 0:
                _log("the daemon does not get ready; it is ended")
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                self._is_stopping = True

    # ---- the daemon ----

    def _start(self) -> None:
        self._reap()
        self._start_times.append(time.monotonic())
        self._is_ready = self._is_stopping = False
        if self._wake_spare():
            return
        descriptors = dict(self._stored_fds)
        self._pid = os.fork()
        if not self._pid:
            try:
                self._execute(descriptors)
            finally:
                os._exit(127)
        self._pidfd = os.pidfd_open(self._pid)
        self._close_launcher_pipe()

    def _wake_spare(self) -> bool:
        """Give the drive to the spare, if it is alive; it is asked once, whatever comes of it."""
        if self._spare is None:
            return False
        (pid, line, pidfd), self._spare = self._spare, None
        names = ":".join(self._stored_fds).encode()
        rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in self._stored_fds.values())
        sender = _socket.socket(fileno=line)
        try:
            ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)]
            sender.sendmsg([names], ancillary, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        except OSError:
            os.close(pidfd)
            return False
        finally:
            sender.close()
        self._pid, self._pidfd = pid, pidfd
        return True

    @staticmethod
    def _reap() -> None:
        """Reap daemons that handed the drive over to another one."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def _execute(self, descriptors: "dict[str, int]") -> None:
        """Become the daemon; called in the forked child."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        environment = dict(os.environ)
        environment.update({"NOTIFY_SOCKET": self._address, "FDSTORE": str(MOST_FDS), KEEPS_SPARE: "1"})
        if descriptors:
            environment.update(pass_to_program(descriptors))
        os.execve(self._command[0], self._command, environment)

    def _close_launcher_pipe(self) -> None:
        """Close the launcher's ready pipe: only the first daemon reports to it."""
        if "--ready-fd" in self._command:
            place = self._command.index("--ready-fd")
            os.close(int(self._command[place + 1]))
            del self._command[place : place + 2]

    def _wait_for_exit(self) -> int:
        os.close(self._pidfd)
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            return 0  # a spare, or started by an upgrade: not our child
        return (
            max(os.waitstatus_to_exitcode(status), 0) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        )

    def _may_restart(self) -> bool:
        now = time.monotonic()
        self._start_times = [at for at in self._start_times if now - at < WITHIN_SECONDS]
        return len(self._start_times) < STARTS

    def _ready_timeout_ms(self) -> "int | None":
        """Milliseconds left for the daemon to get ready; None for no limit."""
        if self._is_ready or self._is_stopping or not self._stored_fds:
            return None
        return max(0, int(1000 * (self._start_times[-1] + READY_SECONDS - time.monotonic())))

    # ---- messages of the daemon ----

    def _receive_messages(self) -> None:
        while True:
            try:
                room = _socket.CMSG_LEN(4 * MOST_FDS)
                data, ancillary, _, _ = self._notify_socket.recvmsg(LONGEST, room, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            descriptors = [
                int.from_bytes(rights[at : at + 4], sys.byteorder)
                for level, kind, rights in ancillary
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
                for at in range(0, len(rights) - len(rights) % 4, 4)
            ]
            self._handle_message(
                dict(line.partition("=")[::2] for line in data.decode().splitlines()), descriptors
            )

    def _handle_message(self, message: "dict[str, str]", descriptors: "list[int]") -> None:
        name = message.get("FDNAME", "stored")
        for fd in descriptors:
            os.set_inheritable(fd, False)
        if SPARE in message:
            self._drop_spare()
            if len(descriptors) == 2:
                (line, pidfd), descriptors = descriptors, []
                self._spare = int(message[SPARE]), line, pidfd
        for fd in descriptors:
            if "FDSTORE" in message:
                self._drop(name)
                self._stored_fds[name] = fd
            else:
                os.close(fd)
        if "FDSTOREREMOVE" in message:
            self._drop(name)
        if "READY" in message:
            self._is_ready = True
        if "STOPPING" in message:
            self._is_stopping = True
        if message.get("MAINPID", "").isdigit():
            self._pid, self._is_stopping = int(message["MAINPID"]), False
            os.close(self._pidfd)
            self._pidfd = os.pidfd_open(self._pid)

    def _forward_signals(self) -> None:
        for number in os.read(self._signals, 64):
            signal.pidfd_send_signal(self._pidfd, number)

    def _drop(self, name: str) -> None:
        if (fd := self._stored_fds.pop(name, None)) is not None:
            os.close(fd)

    def _drop_spare(self) -> None:
        """Close what we have of the spare, which ends it."""
        if self._spare is not None:
            for fd in self._spare[1:]:
                os.close(fd)
            self._spare = None

    def _drop_all(self) -> None:
        for name in list(self._stored_fds):
            self._drop(name)


def pass_to_program(descriptors: "dict[str, int]") -> "dict[str, str]":
    """Give these descriptors the numbers that the next program expects; return the environment that names
    them."""
    # Move them away first, so that no target number is still in use.
    moved = [os.dup2(fd, 100 + place, inheritable=False) for place, fd in enumerate(descriptors.values())]
    for place, fd in enumerate(moved):
        os.dup2(fd, _FIRST_FD + place)
    return {
        "LISTEN_PID": str(os.getpid()),
        "LISTEN_FDS": str(len(descriptors)),
        "LISTEN_FDNAMES": ":".join(descriptors),
    }


def _log(sentence: str) -> None:
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
