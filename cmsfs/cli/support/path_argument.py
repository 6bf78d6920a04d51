"""The `REMOTE` argument of commands: a path on the service.

A local path on a mounted drive of the account means the same item; `client.remote_paths` finds it.
"""

import os
from pathlib import Path

import click

from cmsfs import config, errors, mounts
from cmsfs.cli.support import context, daemonctl


class _Path(click.ParamType):  # type: ignore[type-arg]  # older releases have none
    """A path at the service, or a local path on a drive."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            given = Path(os.path.normpath(Path(value).expanduser().absolute()))
        except (OSError, RuntimeError):
            return value  # the working directory or the home directory does not exist
        places = [Path(one.mountpoint) for one in mounts.listing() if one.is_drive]
        above = max((place for place in places if given.is_relative_to(place)), key=str, default=None)
        known = ctx.find_object(context.Context) if ctx is not None else None
        if above is None or known is None:
            return value
        daemon = daemonctl.find_mountpoint(above)
        account = known.account or known.settings().account
        # The root of a partial drive is not the root of the service.
        if daemon is None or daemon.socket != config.Paths(daemon.account).socket:
            return value
        if daemon.account != account:
            raise errors.UserError(f"{given} is on the drive of account {daemon.account}, not {account}.")
        end = "/" if value.endswith("/") else ""
        return daemonctl.on_drive(daemon, str(given)).removesuffix("/") + end or "/"


PATH = _Path()
