"""`cmsfs doctor`: diagnoses this machine, the account and the connection, and suggests fixes.

Rule: each finding comes with a remedy, and a failing check does not hide the others.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from cmsfs import config, errors, output
from cmsfs.cli.doctor import machine, service, support_bundle
from cmsfs.cli.doctor.checks import Check
from cmsfs.cli.mount import units
from cmsfs.cli.support import context

_MARKS = {"ok": "ok", "warning": "WARN", "failed": "FAIL", "skipped": "-"}


@click.command()
@click.option(
    "--bundle",
    "bundle_to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a support bundle (zip, without secrets) to this file.",
)
@output.json_option
@context.pass_context
def doctor(ctx: context.Context, *, bundle_to: Path | None, as_json: bool) -> None:
    """Diagnose problems with this machine, the configuration, the login and the connection.

    Exit code 1 if something does not work; warnings alone do not count as failures.
    """
    try:
        settings = ctx.settings()
        config.profile(settings)
    except errors.ConfigError as error:
        failed = Check("configuration", "failed", error.message, "cmsfs config edit")
        _finish([failed], as_json=as_json)
        return
    checks: list[Check] = []
    for check in _run_checks(settings):
        checks.append(check)
        if not as_json:
            _print_check(check)
    if bundle_to is not None:
        support_bundle.write(bundle_to, settings, checks, unit=units.name(settings.place))
        output.note(f"The support bundle is in {bundle_to}; review it before you send it.")
    _finish(checks, as_json=as_json, shown=True)


def _run_checks(settings: config.Settings) -> Iterator[Check]:
    yield Check("configuration", "ok", f"account {settings.account}, profile {settings.profile}")
    yield from machine.checks(settings)
    yield from service.checks(settings)


def _print_check(check: Check) -> None:
    output.say(f"{_MARKS[check.state]:5} {check.name}: {check.said}")
    if check.remedy:
        output.say(f"        try: {check.remedy}")


def _finish(checks: list[Check], *, as_json: bool, shown: bool = False) -> None:
    failed = [check for check in checks if check.state == "failed"]
    if as_json:
        output.document({"ok": not failed, "checks": [asdict(check) for check in checks]})
    elif not shown:
        for check in checks:
            _print_check(check)
    if failed:
        sys.exit(1)
