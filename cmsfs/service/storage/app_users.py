"""App users: users that an application manages, who never log in but can be invited.

For that they have a login, too; its domain is one that no mail reaches, and nobody else's login is there.
"""

from sqlite3 import Connection, Row

from cmsfs.runtime import chance

DOMAIN = "app-users.invalid"


def is_one(row: Row) -> bool:
    """Whether a user has none but the login of an app user; deleted users have no login at all."""
    return is_login(row["login"])


def is_login(login: str | None) -> bool:
    return login is not None and login.lower().endswith(f"@{DOMAIN}")


def new_login(number: int) -> str:
    """A login for a user, that nobody could have guessed, and so invited, before."""
    return f"AppUser_{number}_{chance.token_hex(8)}@{DOMAIN}"


def give_login(conn: Connection, number: int) -> None:
    """Give a user such a login."""
    conn.execute("UPDATE account SET login = ? WHERE id = ?", (new_login(number), number))
