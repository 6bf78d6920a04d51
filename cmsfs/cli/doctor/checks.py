"""The result type of `cmsfs doctor`: one `Check` per question, with the fix for what is wrong.

Rule: a check never raises and changes nothing; what a person would do is a command, where there
is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cmsfs import errors, user_messages

State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer; `remedy` is empty where nothing is to be done."""

    name: str
    state: State
    said: str
    remedy: str = ""


def guarded(name: str, look: Callable[[], Check]) -> Check:
    """The outcome of a check, or that it could not be made."""
    try:
        return look()
    except errors.UserError as error:
        return Check(name, "failed", error.message)
    except Exception as error:
        # A check that meets what nobody thought of must not hide the others.
        return Check(name, "failed", user_messages.explain(error).message)
