"""Which process makes a call."""

import os
import subprocess
import threading

from cmsfs.vfs.heuristics import callers


def test_a_call_by_a_thread_is_one_of_its_process() -> None:
    found: list[callers.ProcessIdentity | None] = []

    def ask() -> None:
        callers.CALLER.set(threading.get_native_id())
        found.append(callers.current_process())

    for _ in range(2):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    first, second = found
    assert first is not None
    assert first == second
    assert first.pid == os.getpid()
    assert callers.is_alive(first)
    assert not callers.is_alive(first._replace(since="another start"))


def test_a_process_is_not_alive_once_it_has_ended() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    callers.CALLER.set(process.pid)
    found = callers.current_process()
    assert found is not None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not callers.is_alive(found), "a zombie"
    process.wait()
    assert not callers.is_alive(found)
    assert callers.current_process() is None


def test_who_calls_may_be_unknown() -> None:
    callers.CALLER.set(0)
    assert callers.current_process() is None
