"""Renders HTML pages; the only way to them.

Plain documents out of `templates/`, in the reader's light or dark colours.  Only where files are uploaded is
there a script, a file of our own.

Rule: templates escape whatever they are given; the policy allows nothing but our own style, and the script
that carries this answer's `nonce`.
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
    # Only who shows a page pays for it: the drive's own service shows none, and starts quicker.
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("cmsfs.service"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = _code
    made.filters["bytes"] = size
    return made


@cache
def _style() -> tuple[str, str]:
    """Our style, and its hash for the policy."""
    text = _environment().get_template("style.css").render()
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _code(text: str) -> markupsafe.Markup:
    """A text whose words between backticks are code."""
    return markupsafe.Markup(_CODE.sub(r"<code>\1</code>", str(markupsafe.escape(text))))


def size(number: int) -> str:
    """A number of bytes for people."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def text(template: str, **values: Any) -> str:
    """A document."""
    style, _ = _style()
    made: str = _environment().get_template(template).render(style=markupsafe.Markup(style), **values)
    return made


@cache
def script() -> tuple[str, str]:
    """The script of the pages for people, and a word that is another when the script is."""
    made: str = _environment().get_template("web/page.js").render()
    return made, hashlib.sha256(made.encode()).hexdigest()[:12]


def page(
    document: str, *, status: int = 200, form_to: str = "", pictures: bool = False, nonce: str = ""
) -> responses.HTMLResponse:
    """The answer with a document, perhaps one with pictures of ours.

    `form_to` is where, besides here, the answer to its form may lead; `nonce` what its script carries, which
    may send to us what people upload.
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


def problem(code: str, said: str, *, status: int = 400) -> responses.HTMLResponse:
    return page(text("problem.html", code=code, said=said), status=status)


def log_in(where: str, proof: tuple[str, str], *, login: str = "", said: str = "") -> responses.HTMLResponse:
    """The form for login and password, on the way to `where`."""
    document = text("log_in.html", where=where, proof=proof, login=login, said=said)
    return page(document, status=401 if said else 200)


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
    """The question whether the application may; with `terms` (`id`, `text`) that are to be agreed to."""
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
