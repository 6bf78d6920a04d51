"""The pages of the authorize endpoint as HTML.

Plain documents with one form each, without scripts, in the reader's light or dark colours.

Rule: every text that comes from outside goes through `escape`; the policy allows nothing but our own style.
"""

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from starlette import responses

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --accent: #2457c5; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 12vh auto; padding: 0 1.5rem; }
main { border: 1px solid var(--line); border-radius: 12px; padding: 1.5rem 2rem; }
h1 { font-size: 1.25rem; margin: 0 0 1rem; }
label { display: block; margin: 0.75rem 0; }
input { display: block; width: 100%; box-sizing: border-box; font: inherit; padding: 0.5rem;
  margin-top: 0.25rem; border: 1px solid var(--line); border-radius: 6px; }
button { font: inherit; padding: 0.5rem 1.25rem; margin: 1rem 0.5rem 0 0; border-radius: 6px;
  border: 1px solid var(--line); cursor: pointer; }
button.main { background: var(--accent); color: white; border-color: transparent; }
button.plain { border: 0; padding: 0; background: none; color: inherit; text-decoration: underline; }
.problem { border-left: 4px solid #c33; padding-left: 0.75rem; }
small { opacity: 0.7; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def page(title: str, body: str, *, status: int = 200, form_to: str = "") -> responses.HTMLResponse:
    """A document; `form_to` is where, besides here, the answer to its form may lead."""
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n<h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none';"
        f" form-action 'self' {form_to}"
    )
    headers = {
        "Content-Security-Policy": policy.strip(),
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    return responses.HTMLResponse(text, status, headers)


def problem(code: str, said: str, *, status: int = 400) -> responses.HTMLResponse:
    body = f'<p class="problem">{escape(said)}</p>\n<p><small>{escape(code)}</small></p>'
    return page("This request cannot be answered", body, status=status)


def _form(proof: tuple[str, str], inside: str) -> str:
    name, value = proof
    return (
        '<form method="post">\n'
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">\n{inside}\n</form>'
    )


def log_in(app: str, proof: tuple[str, str], *, login: str = "", said: str = "") -> responses.HTMLResponse:
    """The form for login and password."""
    complaint = f'<p class="problem" role="alert">{escape(said)}</p>\n' if said else ""
    inside = (
        f"<p>to go on to <strong>{escape(app)}</strong></p>\n{complaint}"
        '<label>Login <input name="login" type="text" autocomplete="username" required'
        f' value="{escape(login)}"></label>\n'
        '<label>Password <input name="password" type="password" autocomplete="current-password" required>'
        "</label>\n"
        '<button class="main" name="action" value="login">Log in</button>'
    )
    return page("Log in", _form(proof, inside), status=401 if said else 200)


def consent(
    app: str,
    user: str,
    scopes: Iterable[str],
    proof: tuple[str, str],
    *,
    redirect_uri: str,
    form_to: str,
) -> responses.HTMLResponse:
    """The question whether the application may."""
    rows = "".join(f"<li>{escape(one)}</li>\n" for one in scopes)
    inside = (
        f"<p><strong>{escape(app)}</strong> asks for your permission to</p>\n<ul>\n{rows}</ul>\n"
        f"<p><small>You are logged in as {escape(user)}. The answer goes to {escape(redirect_uri)}."
        "</small></p>\n"
        '<button class="main" name="action" value="grant">Grant access</button>\n'
        '<button name="action" value="deny">Deny</button>\n'
        '<p><button class="plain" name="action" value="leave">Log in as somebody else</button></p>'
    )
    return page(f"Give {app} access?", _form(proof, inside), form_to=form_to)
