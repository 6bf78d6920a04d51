"""The global options and the settings that result from them.

`main.cli` makes one `Context` for a command line; commands get it with `@pass_context`.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cmsfs import config


# For error messages after the command has ended.
account_in_use: contextvars.ContextVar[str | None] = contextvars.ContextVar("account_in_use", default=None)


@dataclass(frozen=True, slots=True)
class Context:
    """The options before the command's name."""

    account: str | None  # as given on the command line; None: the configuration's default

    def settings(self, **overrides: Any) -> config.Settings:
        """Return the settings of the account.  Raises `ConfigError`, also for an unknown account."""
        from cmsfs import config  # imported here: `cmsfs --help` does not need the settings

        if self.account:
            config.require_account(self.account)
        return config.load(self.account, **overrides)


pass_context = click.make_pass_decorator(Context)
