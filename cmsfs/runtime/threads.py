"""Work that would hold up the run, in threads of its own."""

import trio

run_sync = trio.to_thread.run_sync
