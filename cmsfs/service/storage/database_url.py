"""Checks the database URL that a command was given."""

from urllib.parse import parse_qs, urlsplit

from cmsfs import errors

_SCHEMES = ("postgresql", "postgres")


def checked_url(url: str) -> str:
    """The URL, if it is a PostgreSQL URL without a password.  Raises `UserError`."""
    try:
        parts = urlsplit(url)
        password, asked = parts.password, parse_qs(parts.query)
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise _unknown() from None
    if parts.scheme not in _SCHEMES:
        raise _unknown()
    if password is not None or "password" in asked:
        message = (
            "A password on the command line can be read by everybody on this machine: leave it out of "
            "--database, and put it into the file that PGPASSFILE names (else ~/.pgpass), or into PGPASSWORD."
        )
        raise errors.UserError(message, exit_code=2)
    return url


def _unknown() -> errors.UserError:
    message = (
        "--database takes the URL of a PostgreSQL database: "
        "postgresql://user@host:port/name?sslmode=verify-full."
    )
    return errors.UserError(message, exit_code=2)
