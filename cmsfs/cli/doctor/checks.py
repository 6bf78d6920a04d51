"""The result type of `cmsfs doctor`: one `Check` per question, with the fix for what is wrong.

Rule: a check never raises and changes nothing; the remedy is a command, if there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cmsfs import errors, user_messages

State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result; `remedy` is empty if nothing needs to be done."""

    name: str
    state: State
    said: str
    remedy: str = ""


def guarded(name: str, look: Callable[[], Check]) -> Check:
    """Run a check; an exception becomes a failed result."""
    try:
        return look()
    except errors.UserError as error:
        return Check(name, "failed", error.message)
    except Exception as error:
        # An unexpected error in one check must not hide the others.
        return Check(name, "failed", user_messages.explain(error).message)
