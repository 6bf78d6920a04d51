"""The worker process that parses untrusted documents: `python -P -m cmsfs.service.worker.worker`.

The service starts it (see worker_client.py) and sends it jobs one at a time, each a line of JSON on its
standard input; it answers each with a line on its standard output, and writes the result to the file that the
job names.  It has its own limits on memory, time and output size, so that a hostile document kills only this
process.

Its arguments name the folder it may read and the folder it may write; where the kernel supports it
(sandbox.py), it can access no others except the system's files, and no network.

Rule: it never outlives the service: it exits when its input closes, even in the middle of a job.
"""

import json
import os
import resource
import select
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

from cmsfs.service.worker import extraction, imaging, sandbox

# Twice the memory that the largest supported image needs.
MEMORY = 1024 * 1024 * 1024

# Longer than any honest document takes: its pages get 10 s (see extraction.py).  A job
# may wait for a disk for longer than it may compute: there may be thousands of hostile documents, with other
# users' jobs queued behind them.
JOB_SECONDS = 30
JOB_PROCESSOR_SECONDS = 15

MAX_OUTPUT = 64 * 1024 * 1024


def main() -> None:
    _set_limits()
    if len(sys.argv) == 3:
        sandbox.restrict(reads=[Path(sys.argv[1])], writes=[Path(sys.argv[2])])
    threading.Thread(target=_exit_with_service, daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Output that a library prints must not end up among our answers.
    os.dup2(2, 1)
    for line in sys.stdin:
        # Not handled: the signal kills the process whatever it is doing, even inside a library's C code.
        signal.alarm(JOB_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, JOB_PROCESSOR_SECONDS)
        answer = run(json.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        print(json.dumps(answer), file=answers, flush=True)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job; return {} if its target is written, else {"error": reason}."""
    source, target = Path(job["source"]), Path(job["target"])
    try:
        if job["what"] == "text":
            data = extraction.extract_text(source).encode()
        else:
            data = imaging.draw(source, job["extension"], job["width"], job["height"])
        with target.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except extraction.Unreadable as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it needs more memory than a document may"}
    except OSError as error:
        return {"error": error.strerror or str(error)}
    return {}


def _set_limits() -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(what, (most, most))
    os.umask(0o077)
    os.nice(10)  # requests of clients come first
    warnings.simplefilter("ignore")


def _exit_with_service() -> None:
    watch = select.poll()
    watch.register(0, 0)  # reports only its end, not input
    watch.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
