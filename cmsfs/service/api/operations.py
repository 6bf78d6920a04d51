"""Declares API operations: a route together with its OpenAPI description.

Each capability lists its operations beside its handlers; app.py groups and serves them, openapi.py describes
them.  What follows from the route is not repeated: path parameters, the name, the scopes (scopes.py), and the
errors common to all operations of its kind.

Rule: query parameters, bodies and statuses of an operation are declared with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic
from starlette import requests, routing, types

from cmsfs.models import problems, wire_names
from cmsfs.service.access import calls

_TEXT = {"type": "string"}
_LIST = {"type": "array", "items": _TEXT}
_FLAG = {"type": "boolean"}
_NUMBER = {"type": "integer", "minimum": 0}

# Any bytes, as a request or response body.
BYTES = "application/octet-stream"
HTML = "text/html"

# Any authenticated request may be throttled, and a full disk does not prevent this answer.
_ALWAYS = (400, 401, 403, 429, 503)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header."""

    name: str
    says: str
    schema: Mapping[str, Any] = field(default_factory=lambda: _TEXT)
    place: str = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class UploadForm:
    """A multipart body: the attributes, described by this model, then the bytes."""

    attributes: type[pydantic.BaseModel]


@dataclass(frozen=True, slots=True)
class Form:
    """A form-encoded body."""

    shape: Any


@dataclass(frozen=True, slots=True)
class FileForm:
    """A multipart body with a file in one part."""

    part: str


def choice(name: str, says: str, *words: str) -> Parameter:
    return Parameter(name, says, {"type": "string", "enum": list(words)})


def flag(name: str, says: str) -> Parameter:
    return Parameter(name, says, _FLAG)


def flag_or(name: str, says: str, *words: str) -> Parameter:
    return Parameter(name, says, {"anyOf": [_FLAG, {"type": "string", "enum": list(words)}]})


def header(name: str, says: str, *, required: bool = False) -> Parameter:
    return Parameter(name, says, place="header", required=required)


FIELDS = Parameter("fields", "Answer the mini representation and these fields.", _LIST)
LIMIT = Parameter(
    "limit",
    "The size of a page; what is above the maximum is lowered to it.",
    {"type": "integer", "minimum": 1},
)
OFFSET = Parameter("offset", "How many entries come before the page.", _NUMBER)
MARKER = Parameter("marker", "Where the page begins: the `next_marker` of the page before.")
USEMARKER = flag("usemarker", "Page by marker, not by offset.")
DIRECTION = choice("direction", "Ascending or descending.", "ASC", "DESC")
SORT = choice("sort", "What a listing is ordered by.", "id", "name", "date", "size")

# The parameters of marker paging and of offset paging; a folder's listing accepts both.
MARKED = (LIMIT, MARKER)
PAGED = (LIMIT, OFFSET, USEMARKER, MARKER, SORT, DIRECTION)

IF_MATCH = header("if-match", "The etag that the change starts from; 412 if the item has another by now.")
IF_NONE_MATCH = header("if-none-match", "The etag that is known already; 304 if the item still has it.")
SHARED_LINK = header("boxapi", "`shared_link=URL&shared_link_password=WORD`: see what the link shows, too.")
RANGE = header("range", "`bytes=FIRST-LAST` or `bytes=FIRST-`.")

AS_USER = header("as-user", "The id of the user to act as; for administrators.")
VERSION = Parameter(
    wire_names.VERSION_HEADER,
    "The version of the API; there is one.",
    {"type": "string", "enum": [wire_names.VERSION]},
    "header",
)


class Operation(routing.Route):
    """A route with its description.

    `line` is the method and the path, as in scopes.py.  `gives` is the type of the response with `status`: a
    type that pydantic knows, a media type, or None for an empty body; `also` are further success statuses.
    `errors` are the error statuses beyond those that follow from the line.  A `public` operation takes no
    token, and its handler is a plain endpoint.  `more` is text beyond the summary `says`.
    """

    def __init__(
        self,
        line: str,
        handler: Any,
        says: str,
        gives: Any = None,
        *,
        status: int = 200,
        query: Sequence[Parameter] | type[pydantic.BaseModel] = (),
        headers: Sequence[Parameter] = (),
        body: Any = None,
        also: Mapping[int, Any] | None = None,
        errors: Sequence[int] = (),
        public: bool = False,
        problem: Any = problems.Problem,
        more: str = "",
    ) -> None:
        self.method, path = line.split()
        super().__init__(path, handler if public else calls.guarded(handler), methods=[self.method])
        self.app = _respond_with(self.endpoint)
        self.line = line
        self.handler = handler
        self.says = says
        self.more = more
        self.query = query
        self.headers = tuple(headers)
        self.body = body
        self.public = public
        self.problem = problem
        self.successes: dict[int, Any] = {status: gives} | dict(also or {})
        if IF_NONE_MATCH in self.headers:
            self.successes[304] = None
        self.refusals = self._refusals(errors)

    def _refusals(self, errors: Sequence[int]) -> list[int]:
        found = set(errors) | (set() if self.public else set(_ALWAYS))
        if "{" in self.path:
            found.add(404)
        if self.body is not None:
            found |= {413} if isinstance(self.body, UploadForm | Form | FileForm) else {413, 415}
        if IF_MATCH in self.headers:
            found.add(412)
        return sorted(found)

    @property
    def name_of_operation(self) -> str:
        """Return the name in the style of the public API: the method and the path, `id` for variables."""
        parts = ["id" if part.startswith("{") else part for part in self.path_format.strip("/").split("/")]
        return "_".join([self.method.lower(), *parts])


def _respond_with(endpoint: calls.Endpoint) -> types.ASGIApp:
    """As Starlette does, without its handlers of exceptions: `problems.ErrorMiddleware` answers them all."""

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        response = await endpoint(requests.Request(scope, receive, send))
        await response(scope, receive, send)

    return app


@dataclass(frozen=True, slots=True)
class Group:
    """Routes that the OpenAPI description shows together, under a name and a summary.

    The first of several groups with one name has the summary.  `at_uploads`: clients send these requests to
    the upload host.
    """

    name: str
    summary: str = ""
    routes: Sequence[routing.Route] = ()
    at_uploads: bool = False


def flat(groups: Iterable[Group]) -> list[routing.Route]:
    return [route for group in groups for route in group.routes]
