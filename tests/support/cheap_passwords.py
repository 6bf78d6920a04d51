"""Cheap password hashes for tests: a hash contains its parameters, so checking it is cheap as well.

Every sample service has three of them, which cost more than all the rest of it.  Tests of the shipped
parameters restore `SHIPPED`.
"""

from cmsfs.service.oauth import passwords

SHIPPED = passwords.LOG_N


def install() -> None:
    """Use parameters that hash a password in a millisecond."""
    passwords.LOG_N = 4
