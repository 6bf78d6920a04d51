"""Maps httpx exceptions and error responses to the exceptions of `cmsfs.errors`.

Everything that `client/` lets out has passed through here.

Rule: an error answer may have any body, or none; it never makes the report of the error fail.

Rule: that something is not there, or not for us, is believed in the service's own words only.
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

# A message of a foreign body is shown to people; a page of HTML is not.
MAX_MESSAGE = 500

LONGEST_RETRY_AFTER = 3600.0

# What OpenSSL finds where plain text comes, or nothing but an end.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_EOF_WHILE_READING"})

# Refusals from which it would be concluded that an item is gone, or not ours.
_TERMS = "terms_of_service_required"
_WORDED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


def from_httpx(error: Exception) -> errors.RemoteError | None:
    """`Offline`, `RemoteTimeout` or `ProtocolError` for what httpx raises, to be raised from it; None for any
    other exception."""
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
    """What the error says, or what caused it where it says nothing itself."""
    chain, cause = list[BaseException](), error
    while cause is not None:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(isinstance(one, ssl.SSLError) and one.reason in _NO_TLS for one in chain):
        return "nobody speaks TLS at that address; does it begin with http:// instead of https://?"
    return next(filter(None, map(str, chain)), type(error).__name__)


def _certificate_problem(error: BaseException) -> str | None:
    """Why TLS refused the other side; waiting for the network would not help there."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        cause = cause.__cause__ or cause.__context__
    return None


def from_response(response: httpx.Response) -> errors.ApiError:
    """The exception for an error answer whose body has been read."""
    problem = _problem(response)
    try:
        phrase = HTTPStatus(response.status_code).phrase
    except ValueError:
        phrase = ""
    if _is_anothers(response, problem):
        kind: type[errors.ApiError] = errors.NotOurs
    else:
        kind = errors.api_error_class(response.status_code)
        if problem.code == _TERMS:
            # A 400 at the service; what is missing is a right, until somebody agrees.
            kind = errors.Forbidden
    return kind(
        response.status_code,
        problem.code,
        problem.message or phrase,
        context_info=problem.context_info,
        request_id=problem.request_id or "",
        retry_after=retry_after(response),
    )


def _is_anothers(response: httpx.Response, problem: problems.Problem) -> bool:
    """Whether this refusal is somebody's before the service, who knows nothing of its items.

    The service says its errors with a code, and a token that may too little in a header.
    """
    if response.status_code not in _WORDED or "www-authenticate" in response.headers:
        return False
    told = problem.status is None or problem.status == response.status_code
    return not (problem.type == "error" and problem.code and not problem.code.isdigit() and told)


def from_token_response(response: httpx.Response) -> errors.RemoteError:
    """The exception for a refusal of the token endpoint, which has a body form of its own."""
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
        # Take what can be taken: a handler needs the code most of all.
        kept = {key: body[key] for key in ("code", "message", "request_id") if isinstance(body.get(key), str)}
        if isinstance(body.get("context_info"), dict):
            kept["context_info"] = body["context_info"]
        return problems.Problem.model_validate(kept)


def _challenge(response: httpx.Response) -> str:
    """A 401 has no body; what there is to know stands in this header, which carries no secret."""
    challenge: str = response.headers.get("www-authenticate", "")
    return challenge[:MAX_MESSAGE]


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that the service asks us to wait: given as such or as a date; None if it does not say.

    An hour at most: who means longer says so again, and who errs does not keep us away for a year.
    """
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER)
    from email.utils import parsedate_to_datetime  # many modules for what few services write

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - clock.time()), LONGEST_RETRY_AFTER)
