"""Named points at which crash tests kill the process, each between two steps of a durable change.

A test names a plan file in `CMSFS_CRASH_PLAN`; while that file contains `POINT N`, the process kills itself
the N-th time from then on that it reaches this point.  Without the variable, `reached` costs one comparison.

Rule: every point is listed here and covered by the crash test.
"""

import enum
import os
import signal
from pathlib import Path


class Point(enum.StrEnum):
    """A named point between two steps; each comment gives the state at that moment."""

    CLOSE_RECORDED = "close-recorded"  # the row describes the draft; `close` has not returned yet
    CUT_RECORDED = "cut-recorded"  # the row has the draft's shorter size; its file is not truncated yet
    GROUP_SYNCED = "group-synced"  # drafts are on disk, their names and rows perhaps not
    GROUP_NAMED = "group-named"  # names are on disk too, rows perhaps not
    GROUP_COMMITTED = "group-committed"  # everything is; obsolete names are not removed yet
    SEAL_HASHED = "seal-hashed"  # the SHA-1 is computed but not recorded
    SEAL_ADOPTED = "seal-adopted"  # the draft is hard-linked as content, not recorded in the row yet
    SEAL_COMMITTED = "seal-committed"  # the row is committed; the draft's name is not removed yet
    OP_CLAIMED = "op-claimed"  # an operation is marked as running, nothing was sent
    MKDIR_SENT = "mkdir-sent"  # the service has done it; the result is not recorded yet
    UPLOAD_SENT = "upload-sent"
    MOVE_SENT = "move-sent"
    TRASH_SENT = "trash-sent"
    SESSION_BEGUN = "session-begun"  # an upload session exists and is recorded
    PARTS_SENT = "parts-sent"  # all parts are uploaded, the session is not committed
    UPLOAD_ADOPTED = "upload-adopted"  # the upload is recorded; the content is still among the drafts
    REQUEST_BEGUN = "request-begun"  # a program's request is recorded (`keep_mounted`), not executed
    REQUEST_DONE = "request-done"  # it is executed, not answered yet
    TOKENS_GIVEN = "tokens-given"  # the service has issued new tokens, none is saved
    TOKENS_KEPT = "tokens-kept"  # the new tokens are on disk, not used yet


_plan: Path | None = None
_passed = 0


def arm(plan: Path | None) -> None:
    """Enable crashing by the plan in this file; the daemon calls this at start-up."""
    global _plan
    _plan = plan


def reached(point: Point) -> None:
    """Kill this process if a test planned a crash at this point."""
    if _plan is not None:
        _crash_if_planned(_plan, point)


def _crash_if_planned(plan: Path, point: Point) -> None:
    global _passed
    try:
        wanted, count = plan.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        _passed = 0  # each plan counts from zero
        return
    if wanted == point:
        _passed += 1
        if _passed >= int(count):
            plan.unlink()  # it is for one crash, whoever comes next
            os.kill(os.getpid(), signal.SIGKILL)
