"""Turns exceptions of a command into one sentence and an exit code.

Asked by the command line, and by `cmsfsd` when it cannot start.  Errors of the service are explained by
`auth.explain`, which the agents of the daemon use too, so that all say the same.

Rule: a bug is called a bug; it never looks like a mistake of the person.
"""

import click

from cmsfs import errors
from cmsfs.auth import user_messages

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def explain(error: BaseException) -> errors.UserError:
    """The sentence and exit code for whatever a command raised."""
    match _leaf(error):
        case KeyboardInterrupt() | click.Abort():
            return errors.UserError("Interrupted.", exit_code=INTERRUPTED)
        case errors.UserError() as told:
            return told
        case errors.CmsfsError() as refused:
            return user_messages.explain(refused)
        case OSError(strerror=str(reason), filename=name):
            where = f"{name}: " if name else ""
            return errors.UserError(f"{where}{reason}.")
        case bug:
            said = f"{type(bug).__name__}: {bug}"
            return errors.UserError(f"This is a bug in cmsfs ({said}); CMSFS_DEBUG=1 shows where.")


def is_told(error: BaseException) -> bool:
    """Whether the sentence says all there is to say; otherwise it is a bug, and its traceback is wanted."""
    return isinstance(_leaf(error), KeyboardInterrupt | click.Abort | errors.CmsfsError)


def is_broken_pipe(error: BaseException) -> bool:
    """Whether the reader of standard output has gone."""
    return isinstance(_leaf(error), BrokenPipeError)


def _leaf(error: BaseException) -> BaseException:
    """The one exception inside the groups that nurseries make; of several, an interrupt, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_leaf(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, KeyboardInterrupt)), leaves[0])
