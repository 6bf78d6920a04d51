"""Maps httpx exceptions and error responses to the exceptions of `cmsfs.errors`.

Every exception that leaves `client/` is translated here.

Rule: an error response may have any body, or none; parsing it never raises.

Rule: "not found" and "forbidden" count only in the service's own error format, never from a gateway.
"""

from __future__ import annotations

import json
import ssl
from datetime import UTC
from http import HTTPStatus
from typing import Any

import pydantic

from cmsfs import errors
from cmsfs.client.transport.lazy import httpx
from cmsfs.models import problems
from cmsfs.runtime import clock

# Messages from error bodies are shown to people, up to this length: no whole HTML pages.
MAX_MESSAGE = 500

LONGEST_RETRY_AFTER = 3600.0

# OpenSSL's reasons if the peer sends plain text, or closes the connection at once.  Python before 3.11.3
# takes the latter for the regular end of a connection, `SSLZeroReturnError`, which has no reason (gh-95494).
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_EOF_WHILE_READING"})

# Statuses from which callers conclude that an item is gone or not accessible.
_TERMS = "terms_of_service_required"
_WORDED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


def from_httpx(error: Exception) -> errors.RemoteError | None:
    """Return the `Offline`, `RemoteTimeout` or `ProtocolError` for an exception of httpx, to be raised from
    it; None for any other exception."""
    match error:
        case httpx.ConnectTimeout() | httpx.ProxyError():
            return errors.Offline(_text(error))
        case httpx.TimeoutException():
            return errors.RemoteTimeout(_text(error))
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            if (refused := _certificate_problem(error)) is not None:
                return errors.ProtocolError(f"the service's certificate is not accepted: {refused}")
            return errors.Offline(_text(error))
        case httpx.HTTPError() | httpx.InvalidURL() | httpx.StreamError():
            return errors.ProtocolError(_text(error))
    return None


def _text(error: BaseException | None) -> str:
    """Return the error's message, or that of its cause if it has none."""
    chain, cause = list[BaseException](), error
    while cause is not None:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(
        isinstance(one, ssl.SSLZeroReturnError) or (isinstance(one, ssl.SSLError) and one.reason in _NO_TLS)
        for one in chain
    ):
        return "nobody speaks TLS at that address; does it begin with http:// instead of https://?"
    return next(filter(None, map(str, chain)), type(error).__name__)


def _certificate_problem(error: BaseException) -> str | None:
    """Return why the certificate was rejected, if it was: then retrying does not help."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        cause = cause.__cause__ or cause.__context__
    return None


def from_response(response: httpx.Response) -> errors.ApiError:
    """Return the exception for an error response whose body has been read."""
    problem = _problem(response)
    try:
        phrase = HTTPStatus(response.status_code).phrase
    except ValueError:
        phrase = ""
    if _is_from_gateway(response, problem):
        kind: type[errors.ApiError] = errors.NotOurs
    else:
        kind = errors.api_error_class(response.status_code)
        if problem.code == _TERMS:
            # The service sends 400; it is a missing permission until the user accepts the terms.
            kind = errors.Forbidden
    return kind(
        response.status_code,
        problem.code,
        problem.message or phrase,
        context_info=problem.context_info,
        request_id=problem.request_id or "",
        retry_after=retry_after(response),
    )


def _is_from_gateway(response: httpx.Response, problem: problems.Problem) -> bool:
    """Whether the response comes from a gateway before the service, which knows nothing of its items.

    The service's own errors have a code, or, for insufficient scope, a `www-authenticate` header.
    """
    if response.status_code not in _WORDED or "www-authenticate" in response.headers:
        return False
    is_consistent = problem.status is None or problem.status == response.status_code
    return not (problem.type == "error" and problem.code and not problem.code.isdigit() and is_consistent)


def from_token_response(response: httpx.Response) -> errors.RemoteError:
    """Return the exception for an error response of the token endpoint, which has its own error format."""
    body = _json(response)
    if isinstance(body, dict) and isinstance(body.get("error"), str):
        description = body.get("error_description")
        return errors.OAuthError(
            body["error"],
            description[:MAX_MESSAGE] if isinstance(description, str) else "",
            status=response.status_code,
        )
    return from_response(response)


def _json(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None


def _problem(response: httpx.Response) -> problems.Problem:
    body = _json(response)
    if not isinstance(body, dict):
        return problems.Problem(message=_challenge(response))
    try:
        return problems.Problem.model_validate(body)
    except pydantic.ValidationError:
        # Keep the valid fields: handlers need the code most of all.
        kept = {key: body[key] for key in ("code", "message", "request_id") if isinstance(body.get(key), str)}
        if isinstance(body.get("context_info"), dict):
            kept["context_info"] = body["context_info"]
        return problems.Problem.model_validate(kept)


def _challenge(response: httpx.Response) -> str:
    """Return the `www-authenticate` header, the only detail of a 401, which has no body; it has no
    secrets."""
    challenge: str = response.headers.get("www-authenticate", "")
    return challenge[:MAX_MESSAGE]


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds that the service asks us to wait, given as a number or a date; None if it does not.

    At most an hour: a service that means longer repeats it, and a wrong value does not block us for a year.
    """
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER)
    from email.utils import parsedate_to_datetime  # imported here: many modules, and few services send dates

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - clock.time()), LONGEST_RETRY_AFTER)
