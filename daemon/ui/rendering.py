"""Renders the pages: the service's style sheet, our templates, and one script.

Rule: templates escape all values; the content security policy allows only our files from this address.
"""

import re
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import jinja2
import markupsafe
from starlette import responses

from cmsfs import output

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # forms without an origin are rejected
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_CODE = re.compile(r"`([^`]+)`")

# The media types of static files.
TYPES = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


@cache
def _environment() -> Any:
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("daemon.ui"),
                jinja2.PackageLoader("daemon.ui", "static"),
                jinja2.PrefixLoader({"service": jinja2.PackageLoader("cmsfs.service")}),
            ]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["size"] = output.size
    made.filters["ago"] = output.ago
    made.filters["when"] = _when
    made.filters["code"] = _code
    made.filters["count"] = output.plural
    made.filters["parameter"] = lambda text: quote(str(text), safe="")
    return made


def _code(text: str) -> markupsafe.Markup:
    """Return a text in which words between backticks are code."""
    return markupsafe.Markup(_CODE.sub(r"<code>\1</code>", str(markupsafe.escape(text))))


def _when(moment_ns: int) -> str:
    """Return a time in local time, to the minute."""
    return datetime.fromtimestamp(moment_ns / 10**9).astimezone().strftime("%Y-%m-%d %H:%M")


def page(template: str, *, code: int = 200, **values: Any) -> responses.HTMLResponse:
    """Return a response with a rendered page."""
    text = _environment().get_template(template).render(**values)
    return responses.HTMLResponse(text, code, HEADERS)


@cache
def static(name: str) -> responses.Response:
    """Return a static file that all pages use."""
    # The service's style sheet, followed by ours.
    parts = ["service/style.css", name] if name == "page.css" else [name]
    text = "\n".join(_environment().get_template(part).render() for part in parts)
    return responses.Response(text, headers=HEADERS, media_type=TYPES[name])
