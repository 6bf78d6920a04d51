"""Turns an exception into one sentence and an exit code.

Asked by the command line, by `cmsfsd` when it cannot start, and by the daemon's agents, so that all say
the same.

Rule: the sentence names the remedy if there is one, and never a token or a secret.  A bug is called a bug; it
never looks like a mistake of the person.
"""

import click

from cmsfs import errors, printable

UNREACHABLE = 5
UNAUTHORISED = 6
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def explain(error: BaseException) -> errors.UserError:
    """The sentence and exit code for whatever was raised; a `UserError` is one already."""
    match _leaf(error):
        case KeyboardInterrupt() | click.Abort():
            return errors.UserError("Interrupted.", exit_code=INTERRUPTED)
        case errors.CmsfsError() as ours:
            return _explain_ours(ours)
        case OSError(strerror=str(reason), filename=name):
            where = f"{name}: " if name else ""
            return errors.UserError(f"{where}{reason}.")
        case bug:
            said = f"{type(bug).__name__}: {bug}"
            return errors.UserError(f"This is a bug in cmsfs ({said}); CMSFS_DEBUG=1 shows where.")


def is_told(error: BaseException) -> bool:
    """Whether the sentence says all there is to say; otherwise it is a bug, and its traceback is wanted."""
    return isinstance(_leaf(error), KeyboardInterrupt | click.Abort | errors.CmsfsError)


def is_missing(error: BaseException) -> bool:
    """Whether something is not there: an item, or an operation of the service."""
    return isinstance(_leaf(error), errors.NotFound | errors.NotSupported | errors.NotOurs)


def is_broken_pipe(error: BaseException) -> bool:
    """Whether the reader of standard output has gone."""
    return isinstance(_leaf(error), BrokenPipeError)


def _leaf(error: BaseException) -> BaseException:
    """The one exception inside the groups that nurseries make; of several, an interrupt, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_leaf(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, KeyboardInterrupt)), leaves[0])


def _explain_ours(error: errors.CmsfsError) -> errors.UserError:
    match error:
        case errors.UserError():
            return error
        case errors.Offline():
            return errors.UserError(f"The service cannot be reached: {_text(error)}.", exit_code=UNREACHABLE)
        case errors.RemoteTimeout():
            return errors.UserError("The service did not answer in time.", exit_code=UNREACHABLE)
        case errors.NeedsLogin() | errors.TokensLocked():
            return errors.UserError(error.message, exit_code=UNAUTHORISED)
        case errors.RootGone():
            return errors.UserError(error.message)
        case errors.OAuthError():
            return errors.UserError(
                f"The service refuses the credentials: {_text(error)}.", exit_code=UNAUTHORISED
            )
        case errors.Unauthorized():
            return errors.UserError("The service does not accept the token.", exit_code=UNAUTHORISED)
        case errors.Forbidden():
            return errors.UserError(f"The service does not allow this: {_reason(error)}.")
        case errors.NotFound():
            return errors.UserError("The service has no such item, or it is in the trash.")
        case errors.NotSupported(code="not_offered"):
            return errors.UserError(f"{_reason(error)}.")
        case errors.NotSupported():
            return errors.UserError("This service cannot do that.")
        case errors.PreconditionFailed():
            return errors.UserError("The item was changed by someone else in the meantime.")
        case errors.RateLimited():
            wait = f"; try again in {error.retry_after:.0f} s" if error.retry_after else ""
            return errors.UserError(f"The service asks for fewer requests{wait}.", exit_code=UNREACHABLE)
        case errors.NotOurs():
            return errors.UserError(
                f"Something before the service answered with status {error.status}, not the service itself.",
                exit_code=UNREACHABLE,
            )
        case errors.NotShown():
            return errors.UserError("The service's search does not show the item at present.")
        case errors.ServerError():
            return errors.UserError(f"The service failed with {_reason(error)}.", exit_code=UNREACHABLE)
        case errors.ApiError():
            return errors.UserError(f"The service refuses: {_reason(error)}.")
        case _:
            return errors.UserError(f"{_text(error)}.")


def _reason(error: errors.ApiError) -> str:
    return printable.escaped((error.message or error.code or f"status {error.status}").rstrip("."))


def _text(error: Exception) -> str:
    return printable.escaped((str(error) or type(error).__name__).rstrip("."))
