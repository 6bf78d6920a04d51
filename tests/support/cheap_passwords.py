"""Passwords whose hashes take no time: a hash says how it was made, so it is checked in as little.

Every sample of a service has three of them, which cost more than all the rest of it.  Tests of what is
shipped put `SHIPPED` back.
"""

from cmsfs.service.oauth import passwords

SHIPPED = passwords.LOG_N


def install() -> None:
    """From now on passwords are hashed in a millisecond."""
    passwords.LOG_N = 4
