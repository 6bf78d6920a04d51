"""The root page, the OpenAPI document and the API documentation page.

The description is generated once per application, at the first request.

Rule: the page is self-contained: no scripts and no external resources.
"""

from importlib import metadata
from typing import Any

import markupsafe
import pydantic_core
from starlette import requests, responses, routing

from cmsfs.service.api import pages
from cmsfs.service.server import not_offered


async def home(request: requests.Request) -> responses.Response:
    return pages.page(pages.text("home.html", version=version()))


async def description(request: requests.Request) -> responses.Response:
    data = pydantic_core.to_json(request.app.description)
    return responses.Response(data, media_type="application/json")


async def browse(request: requests.Request) -> responses.Response:
    return pages.page(request.app.description_page)


async def icon(request: requests.Request) -> responses.Response:
    """An empty response, because browsers request an icon unasked."""
    return responses.Response(status_code=204)


def version() -> str:
    """The version of the installed package; a bare checkout has none."""
    try:
        return metadata.version("cmsfs")
    except metadata.PackageNotFoundError:
        return "0"


def document(described: dict[str, Any]) -> str:
    """The OpenAPI description as an HTML page."""
    shared = described["components"]["parameters"]
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            known = [
                shared[named["$ref"].rpartition("/")[2]] if "$ref" in named else named
                for named in one["parameters"]
            ]
            by_tag.setdefault(one["tags"][0], []).append((path, method.upper(), one | {"parameters": known}))
    absent = not_offered.FAMILIES
    return pages.text("docs.html", document=described, by_tag=by_tag, kind=_kind, absent=absent)


def _kind(schema: dict[str, Any]) -> markupsafe.Markup:
    """A short text for a schema's type, with links to other schemas."""
    join = markupsafe.Markup(" or ").join
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return markupsafe.Markup('<a href="#schema-{0}">{0}</a>').format(name)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return join([_kind(one) for one in schema[several]])
    if "enum" in schema or "const" in schema:
        words = schema.get("enum") or [schema["const"]]
        return join([markupsafe.Markup("<code>{}</code>").format(one) for one in words])
    kind = schema.get("type", "anything")
    if kind == "array":
        return markupsafe.Markup("list of {}").format(_kind(schema.get("items", {})))
    if kind == "object" and "properties" in schema:
        parts = [markupsafe.Markup("<code>{}</code>: {}").format(*one) for one in _parts(schema)]
        return markupsafe.Markup(", ").join(parts)
    words = kind if isinstance(kind, list) else [kind]
    return join([markupsafe.escape(schema.get("format", word)) for word in words])


def _parts(schema: dict[str, Any]) -> list[tuple[str, markupsafe.Markup]]:
    return [(name, _kind(one)) for name, one in schema["properties"].items()]


routes = [
    routing.Route("/", home, methods=["GET"]),
    routing.Route("/openapi.json", description, methods=["GET"]),
    routing.Route("/docs", browse, methods=["GET"]),
    routing.Route("/favicon.ico", icon, methods=["GET"]),
]
