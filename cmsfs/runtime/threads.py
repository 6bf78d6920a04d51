"""Work that would hold up the run, in threads of its own."""

import trio

run_sync = trio.to_thread.run_sync

# In such a thread: raises `trio.Cancelled` if whoever waits for it has been cancelled.
check_cancelled = trio.from_thread.check_cancelled
