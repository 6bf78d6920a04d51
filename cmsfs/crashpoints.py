"""Named points at which crash tests kill the process, each between two steps of a durable change.

A test gives the name of a file in `CMSFS_CRASH_PLAN`; while that file holds `POINT N`, the N-th passage of
this point from then on is the last thing that the process does.  Without the variable, `reached` costs one
comparison.

Rule: every point is named here, and passed by the crash test.
"""

import enum
import os
import signal
from pathlib import Path


class Point(enum.StrEnum):
    """Between which steps."""

    CLOSE_RECORDED = "close-recorded"  # the row says what the draft holds; the program does not know
    CUT_RECORDED = "cut-recorded"  # the row says that a draft ends sooner; its file has all bytes still
    GROUP_SYNCED = "group-synced"  # drafts are on the disk, their names and rows perhaps not
    GROUP_NAMED = "group-named"  # names too, rows perhaps not
    GROUP_COMMITTED = "group-committed"  # all; superfluous names are still there
    SEAL_HASHED = "seal-hashed"  # the SHA-1 is known, nothing is done with it
    SEAL_ADOPTED = "seal-adopted"  # the bytes have their second name as content, no row says so
    SEAL_COMMITTED = "seal-committed"  # the row says so; the draft's name is still there
    OP_CLAIMED = "op-claimed"  # an operation is marked as running, nothing was sent
    MKDIR_SENT = "mkdir-sent"  # the service has done it; we have not written that down
    UPLOAD_SENT = "upload-sent"
    MOVE_SENT = "move-sent"
    TRASH_SENT = "trash-sent"
    SESSION_BEGUN = "session-begun"  # the service keeps parts for us; we know the session
    PARTS_SENT = "parts-sent"  # all parts are there, not joined
    UPLOAD_ADOPTED = "upload-adopted"  # written down; the content still lies among the drafts
    REQUEST_BEGUN = "request-begun"  # what a program asks for is noted (`keep_mounted`), nothing is done
    REQUEST_DONE = "request-done"  # it is done; the program does not know
    TOKENS_GIVEN = "tokens-given"  # the service has given the next pair of tokens, nothing is kept
    TOKENS_KEPT = "tokens-kept"  # the pair is on the disk, not used yet


_plan: Path | None = None
_passed = 0


def arm(plan: Path | None) -> None:
    """Heed the plan in this file; the daemon calls this at its start."""
    global _plan
    _plan = plan


def reached(point: Point) -> None:
    """Go on, unless a test wants the end to come here."""
    if _plan is not None:
        _heed(_plan, point)


def _heed(plan: Path, point: Point) -> None:
    global _passed
    try:
        wanted, count = plan.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        _passed = 0  # a new plan counts anew
        return
    if wanted == point:
        _passed += 1
        if _passed >= int(count):
            os.kill(os.getpid(), signal.SIGKILL)
