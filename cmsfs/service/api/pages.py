"""Renders HTML pages; the only place that does.

Plain documents from `templates/`, in the reader's light or dark color scheme.  Only pages with uploads have a
script, a file of our own.

Rule: templates escape all values; the content security policy allows nothing but our own style, and the
script that carries the response's `nonce`.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from sqlite3 import Row
from typing import Any

import markupsafe
from starlette import responses

_CODE = re.compile(r"`([^`]+)`")


@cache
def _environment() -> Any:
    # Imported on first use: the drive's embedded service shows no pages, and starts faster without it.
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("cmsfs.service"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = _mark_code
    made.filters["bytes"] = size
    return made


@cache
def _style() -> tuple[str, str]:
    """Return our style sheet and its hash for the content security policy."""
    text = _environment().get_template("style.css").render()
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _mark_code(text: str) -> markupsafe.Markup:
    """Return a text with the words between backticks marked as code."""
    return markupsafe.Markup(_CODE.sub(r"<code>\1</code>", str(markupsafe.escape(text))))


def size(number: int) -> str:
    """Return a number of bytes for people."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def text(template: str, **values: Any) -> str:
    """Render a document."""
    style, _ = _style()
    made: str = _environment().get_template(template).render(style=markupsafe.Markup(style), **values)
    return made


@cache
def script() -> tuple[str, str]:
    """Return the script of the user pages, and a word that changes with its content."""
    made: str = _environment().get_template("web/page.js").render()
    return made, hashlib.sha256(made.encode()).hexdigest()[:12]


def page(
    document: str, *, status: int = 200, form_to: str = "", pictures: bool = False, nonce: str = ""
) -> responses.HTMLResponse:
    """Return a document as a response, perhaps one with images of ours.

    `form_to` is an origin that its form's answer may redirect to, besides here; `nonce` is the one its script
    carries, which may send uploads to us.
    """
    policy = (
        f"default-src 'none'; style-src 'sha256-{_style()[1]}'; base-uri 'none'; frame-ancestors 'none';"
        f" form-action 'self' {form_to}"
    ).strip() + ("; img-src 'self'; media-src 'self'" if pictures else "")
    if nonce:
        policy += f"; script-src 'nonce-{nonce}'; connect-src 'self'"
    headers = {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return responses.HTMLResponse(document, status, headers)


def problem(code: str, message: str, *, status: int = 400) -> responses.HTMLResponse:
    return page(text("problem.html", code=code, message=message), status=status)


def log_in(
    where: str, proof: tuple[str, str], *, login: str = "", message: str = ""
) -> responses.HTMLResponse:
    """Return the login form; it leads on to `where`."""
    document = text("log_in.html", where=where, proof=proof, login=login, message=message)
    return page(document, status=401 if message else 200)


def consent(
    app: str,
    user: str,
    scopes: Iterable[str],
    proof: tuple[str, str],
    *,
    redirect_uri: str,
    form_to: str,
    terms: Row | None = None,
) -> responses.HTMLResponse:
    """Return the consent page; `terms` (`id`, `text`) are terms of service that the user has to agree to."""
    document = text(
        "consent.html",
        app=app,
        user=user,
        scopes=list(scopes),
        proof=proof,
        redirect_uri=redirect_uri,
        terms=terms,
    )
    return page(document, form_to=form_to)
