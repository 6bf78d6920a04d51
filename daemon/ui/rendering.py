"""Renders the pages: the service's style, templates of our own, and one script.

Rule: templates escape whatever they are given; the policy allows nothing but files of ours from this address.
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
    "Referrer-Policy": "same-origin",  # a form without an origin is nobody's
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_CODE = re.compile(r"`([^`]+)`")

# Of what is shown as it is.
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
    """A text whose words between backticks are code."""
    return markupsafe.Markup(_CODE.sub(r"<code>\1</code>", str(markupsafe.escape(text))))


def _when(moment_ns: int) -> str:
    """A time of this machine, to the minute."""
    return datetime.fromtimestamp(moment_ns / 10**9).astimezone().strftime("%Y-%m-%d %H:%M")


def page(template: str, *, code: int = 200, **values: Any) -> responses.HTMLResponse:
    """The answer with a page."""
    text = _environment().get_template(template).render(**values)
    return responses.HTMLResponse(text, code, HEADERS)


@cache
def static(name: str) -> responses.Response:
    """A file that all pages use."""
    # The service's own style, and what is ours after it.
    parts = ["service/style.css", name] if name == "page.css" else [name]
    text = "\n".join(_environment().get_template(part).render() for part in parts)
    return responses.Response(text, headers=HEADERS, media_type=TYPES[name])
