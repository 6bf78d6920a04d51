"""Error messages and exit codes for when the service cannot be used.

The daemon's failing start and a failing command say the same, since both ask here.

Rule: the sentence names the remedy if there is one, and never a token or a secret.
"""

from cmsfs import errors, printable

UNREACHABLE = 5
UNAUTHORISED = 6


def explain(error: errors.CmsfsError) -> errors.UserError:
    """The sentence for an exception of ours; a `UserError` is one already."""
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
        case errors.ServerError():
            return errors.UserError(f"The service failed with {_reason(error)}.", exit_code=UNREACHABLE)
        case errors.ApiError():
            return errors.UserError(f"The service refuses: {_reason(error)}.")
        case _:
            return errors.UserError(f"{_text(error)}.")


def _reason(error: errors.ApiError) -> str:
    return printable.shown((error.message or error.code or f"status {error.status}").rstrip("."))


def _text(error: Exception) -> str:
    return printable.shown((str(error) or type(error).__name__).rstrip("."))
