"""The worker process that parses untrusted documents: `python -P -m cmsfs.service.worker.worker`.

The service starts it (see workshop.py) and hands it one job after the other, each a line of JSON on its
standard input; it answers each with a line on its standard output, and writes what it made into the file
that the job names.  It has limits of its own of memory, time and output, so that a hostile document ends
this process and nothing else.

It is told which folder it may read and which it may write; beyond the system's own files it has no other
where the kernel can see to that (confinement.py), and no network.

Rule: it lives no longer than the service: it ends when its input does, in the middle of a job too.
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

# Twice what the largest picture that is opened needs.
MEMORY = 1024 * 1024 * 1024

# More time than any honest document takes: one has 10 s for its pages (see extraction.py).  What waits for a
# disk has more than what computes: there may be thousands of hostile ones, and others' wait behind them.
JOB_SECONDS = 30
JOB_PROCESSOR_SECONDS = 15

MAX_OUTPUT = 64 * 1024 * 1024


def main() -> None:
    _limit()
    if len(sys.argv) == 3:
        sandbox.confine(reads=[Path(sys.argv[1])], writes=[Path(sys.argv[2])])
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # A library that prints would answer in our place.
    os.dup2(2, 1)
    for line in sys.stdin:
        # Not handled: the signal ends the process whatever it is doing, in a library's C too.
        signal.alarm(JOB_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, JOB_PROCESSOR_SECONDS)
        answer = run(json.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        print(json.dumps(answer), file=answers, flush=True)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; {} if its target is written, else {"error": why}."""
    source, target = Path(job["source"]), Path(job["target"])
    try:
        if job["what"] == "text":
            data = extraction.words(source).encode()
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


def _limit() -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(what, (most, most))
    os.umask(0o077)
    os.nice(10)  # whoever waits for a page comes first
    warnings.simplefilter("ignore")


def _end_with_the_service() -> None:
    watch = select.poll()
    watch.register(0, 0)  # its end alone, not what comes
    watch.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
