"""Runs blocking work in threads, so that it does not block the event loop."""

import trio

run_sync = trio.to_thread.run_sync

# Call in such a thread: raises `trio.Cancelled` if the task that waits for it has been cancelled.
check_cancelled = trio.from_thread.check_cancelled
