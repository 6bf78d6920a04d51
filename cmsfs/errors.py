"""The exception hierarchy of cmsfs, and the data that each exception carries.

    CmsfsError
    ├── UserError                  a person can mend it: one sentence and an exit code
    │   └── ConfigError            the configuration cannot be read or does not hold
    ├── IntegrityError             bytes do not have the SHA-1 they should have
    ├── Emptied                    a web link was written empty, which nothing at the service can be
    ├── MissingBlocks              content was asked for that is not on this disk
    ├── DamagedContent             content that only this disk has is not what was written
    ├── RemoteError                anything that went wrong on the way to the service
    │   ├── Offline                no connection could be made, or it broke
    │   ├── RemoteTimeout          the service did not answer in time
    │   ├── ProtocolError          the answer made no sense
    │   ├── OAuthError             the token endpoint refused (error, error_description)
    │   │   └── NeedsLogin         nobody is logged in, or the login has ended; a sentence with the remedy
    │   ├── TokensLocked           the tokens are in a keyring that is locked; a sentence with the remedy
    │   └── ApiError               an error body: status, code, message, context_info, retry_after
    │       ├── BadRequest         400
    │       ├── Unauthorized       401
    │       ├── Forbidden          403
    │       ├── NotFound           404 (code `trashed`: it is in the trash)
    │       ├── NotSupported       405: this service has no such operation
    │       ├── Conflict           409 (code `item_name_in_use`: `conflict` names the holder)
    │       ├── Gone               410: an upload session that ended
    │       ├── PreconditionFailed 412: the version is not the one we started from
    │       ├── RateLimited        429
    │       └── ServerError        5xx
    │           ├── NotOurs        a 403, 404 or 410 that the service itself did not say
    │           └── NotShown       no search shows the item now, at a service that has nothing but searches

Rule: an exception carries what its handler needs as attributes; nobody parses a message.
"""

from typing import Any


class CmsfsError(Exception):
    """The root of all exceptions that cmsfs raises on purpose."""


class UserError(CmsfsError):
    """One sentence for the person at the terminal, and the exit code that goes with it."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class ConfigError(UserError):
    """The configuration cannot be read or does not hold; exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)


class IntegrityError(CmsfsError):
    """Bytes do not have the SHA-1 that they should have."""

    def __init__(self, message: str, *, expected: str, actual: str) -> None:
        super().__init__(f"{message}: expected SHA-1 {expected}, got {actual}")
        self.expected = expected
        self.actual = actual


class Emptied(CmsfsError):
    """A web link was written empty, which nothing at the service can be."""


class LostBase(CmsfsError):
    """A change was written over bytes that were never here, and that the service does not give out."""


class MissingBlocks(CmsfsError):
    """Blocks of a content were asked for that are not on this disk (first and last, inclusive)."""

    def __init__(self, sha1: str, first: int, last: int) -> None:
        super().__init__(f"blocks {first}-{last} of {sha1} are not cached")
        self.sha1 = sha1
        self.first = first
        self.last = last


class DamagedContent(CmsfsError):
    """A content that nobody else has is not on this disk as it was written: a power cut took bytes of it."""


class RemoteError(CmsfsError):
    """Something went wrong on the way to the service or at it."""


class Offline(RemoteError):
    """No connection could be made, or it broke before the answer was complete."""


class RemoteTimeout(RemoteError):
    """The service did not answer in time."""


class ProtocolError(RemoteError):
    """The service's answer does not have the shape that it must have."""


class OAuthError(RemoteError):
    """The token endpoint refused: `error` and `error_description` as RFC 6749 names them."""

    def __init__(self, error: str, description: str = "", *, status: int = 400) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error
        self.description = description
        self.status = status


class NeedsLogin(OAuthError):
    """Nobody is logged in to the account, or what there was has ended: one sentence that says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__("login_required", message)
        self.message = message


class TokensLocked(RemoteError):
    """The keyring that has the tokens does not give them now: one sentence that says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RootGone(RemoteError):
    """The service does not show the folder that a drive begins at: one sentence that says so."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ApiError(RemoteError):
    """An error answer of the service."""

    def __init__(
        self,
        status: int,
        code: str = "",
        message: str = "",
        *,
        context_info: dict[str, Any] | None = None,
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        # The service's own log has the same id: with it who runs the service finds what happened.
        super().__init__(f"{status} {code}: {message}" + (f" (request {request_id})" if request_id else ""))
        self.status = status
        self.code = code
        self.message = message
        self.context_info = context_info or {}
        self.request_id = request_id
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401: no token, a dead one, or one that lacks what it needs."""


class Forbidden(ApiError):
    """403: the right is missing, or a policy forbids it."""


class NotFound(ApiError):
    """404 in the service's own words: not there, hidden, or (code `trashed`) in the trash."""


class NotSupported(ApiError):
    """405: the service has no such operation."""


class Conflict(ApiError):
    """409: most often a name that is in use."""

    @property
    def conflict(self) -> dict[str, Any] | None:
        """The item that holds the name; services send one object or a list of them."""
        found = self.context_info.get("conflicts")
        if isinstance(found, list):
            found = found[0] if found else None
        return found if isinstance(found, dict) else None


class Gone(ApiError):
    """410: an upload session that ended."""


class PreconditionFailed(ApiError):
    """412: the item's version is not the one the change started from."""


class RateLimited(ApiError):
    """429: wait `retry_after` seconds."""


class ServerError(ApiError):
    """5xx: the service failed; the change may still have happened."""


class NotOurs(ServerError):
    """A refusal (403, 404, 410) without the service's error body: a gateway, a proxy or a portal answered.

    It says nothing of the item, and passes like any failure of the service.
    """


class NotShown(ServerError):
    """No search shows an item at present, at a service that shows none by its ID: it may be there still."""

    def __init__(self) -> None:
        super().__init__(404, "not_shown", "the search does not show the item at present")


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: NotSupported,
    409: Conflict,
    410: Gone,
    412: PreconditionFailed,
    429: RateLimited,
}


def api_error_class(status: int) -> type[ApiError]:
    """The class for an HTTP status; `ApiError` itself for a 4xx that has none of its own."""
    if status >= 500:
        return ServerError
    return _BY_STATUS.get(status, ApiError)
