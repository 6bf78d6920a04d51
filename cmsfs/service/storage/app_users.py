"""App users: users that an application manages, who never log in but can be invited.

Invitations need a login, so they have one, in a domain that receives no mail and is used for nobody else.
"""

from sqlite3 import Connection, Row

from cmsfs.runtime import chance

DOMAIN = "app-users.invalid"


def is_app_user(row: Row) -> bool:
    """Whether a user is an app user, by the login; deleted users have no login at all."""
    return is_app_user_login(row["login"])


def is_app_user_login(login: str | None) -> bool:
    return login is not None and login.lower().endswith(f"@{DOMAIN}")


def new_login(number: int) -> str:
    """A new login for a user, random so that nobody can have guessed and invited it before."""
    return f"AppUser_{number}_{chance.token_hex(8)}@{DOMAIN}"


def give_login(conn: Connection, number: int) -> None:
    """Give a user an app user's login."""
    conn.execute("UPDATE account SET login = ? WHERE id = ?", (new_login(number), number))
