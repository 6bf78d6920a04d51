"""The URL of a database on a server, as a command was given it."""

from urllib.parse import parse_qs, urlsplit

from cmsfs import errors

_SCHEMES = ("postgresql", "postgres")


def checked_url(url: str) -> str:
    """The URL, if it is one of PostgreSQL without a password.  Raises `UserError`."""
    try:
        parts = urlsplit(url)
        password, asked = parts.password, parse_qs(parts.query)
    except ValueError:
        raise _unknown() from None
    if parts.scheme not in _SCHEMES:
        raise _unknown()
    if password is not None or "password" in asked:
        said = (
            "A password on the command line can be read by everybody on this machine: leave it out of "
            "--database, and put it into the file that PGPASSFILE names (else ~/.pgpass), or into PGPASSWORD."
        )
        raise errors.UserError(said, exit_code=2)
    return url


def _unknown() -> errors.UserError:
    said = "--database takes the URL of a PostgreSQL database: postgresql://user@host:port/name?sslmode=verify-full."
    return errors.UserError(said, exit_code=2)
