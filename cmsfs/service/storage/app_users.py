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


def give_login(conn: Connection, number: int) -> None:
    """Give a user a login that nobody could have guessed, and so invited, before."""
    login = f"AppUser_{number}_{chance.token_hex(8)}@{DOMAIN}"
    conn.execute("UPDATE user SET login = ? WHERE id = ?", (login, number))


def give_logins(conn: Connection) -> None:
    """Give one to every app user of a store in which they had none."""
    for (number,) in conn.execute("SELECT id FROM user WHERE login IS NULL AND enterprise != 0").fetchall():
        give_login(conn, number)
