"""Resolves the SERVICE of `cmsfs login`: a URL, a profile, or an account of the configuration."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cmsfs import config, errors
from cmsfs.cli.support import context
from cmsfs.client import session

LOOPBACK = ("127.0.0.1", "localhost", "::1")

# The settings that define a login; a new login replaces all of them.
KEYS = (
    *("profile", "base_url", "upload_url", "auth_url", "authorize_url", "ca_file", "login", "token_store"),
    *("app_file", "client_id", "client_secret_file", "subject_type", "subject_id"),
)


def find(ctx: context.Context, service: str | None) -> tuple[str, dict[str, Any]]:
    """Return the account's name, and the settings for the service."""
    # Not from the loaded settings: they may be invalid, and a login may repair them.
    account = ctx.account or config.default_account()
    if service is None:
        found = config.load(account)
        kept = {key: getattr(found, key) for key in KEYS if key in found.model_fields_set}
        return account, {key: str(value) if isinstance(value, Path) else value for key, value in kept.items()}
    if "://" in service:
        url = _address(service)
        ends = session.ServiceEndpoints.of_server(url)
        return account, {
            "profile": "server",
            "base_url": ends.base_url,
            "upload_url": ends.upload_url,
            "auth_url": ends.auth_url,
        }
    if service in config.profile_names():
        found = config.load(account)
        same = found.profile == service
        addresses = ("base_url", "upload_url", "auth_url", "authorize_url")
        kept = {key: value for key in addresses if same and (value := getattr(found, key))}
        return account, {"profile": service, **kept}
    if service in config.accounts():
        return find(replace(ctx, account=service), None)
    known = [*config.profile_names(), *config.accounts()]
    raise errors.UserError(
        f"{service!r} is not a URL (https://...), profile or account{config.hint(service, known) or '.'}",
        exit_code=2,
    )


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        whole = False
    if not whole or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise errors.UserError(
            f"{url} is not the URL of a service, such as https://files.example.com.", exit_code=2
        )
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise errors.UserError(
            f"{url} does not use TLS, so the tokens could be intercepted; use https://.", exit_code=2
        )
    return f"{parts.scheme}://{parts.netloc}"
