"""The accounts of the configuration, login and logout, and the findings of `cmsfs doctor`."""

import json

from starlette import responses

from cmsfs import config, errors
from daemon.ui import commands
from daemon.ui.desk import Form, Page, PageDesk, said
from daemon.ui.door import Browser, Notice

# Timeout of a login, during which the user may have to find their password.
LOGIN_SECONDS = 600.0


async def show(desk: PageDesk) -> responses.Response:
    known = sorted({*config.accounts(), desk.drive.settings.account})
    return desk.page(
        "accounts.html",
        "Account",
        accounts=known,
        mine=desk.drive.settings.account,
        status=await desk.drive.status(),
        findings=desk.browser.findings,
    )


async def log_in(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    """Run `cmsfs login`, which opens the service's login page in the browser."""
    account = given.get("account", "").strip()
    if not account or account.startswith("-") or "/" in account:
        raise errors.UserError("An account has a name, without a slash.")
    arguments = [f"--app={app}"] if (app := given.get("app", "").strip()) else []
    if service := given.get("service", "").strip():
        arguments += ["--", service]
    desk.later(lambda: _log_in(desk.browser, account, arguments))
    return desk.to("accounts", "The service's page opens in the browser; log in there.")


async def _log_in(browser: Browser, account: str, arguments: list[str]) -> None:
    try:
        told = await commands.run(account, "login", *arguments, seconds=LOGIN_SECONDS)
        browser.notice = Notice(told.strip() or "Logged in.")
    except (errors.CmsfsError, OSError) as error:
        browser.notice = Notice(said(error), failed=True)


async def log_out(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    told = await commands.run(desk.drive.settings.account, "logout")
    return desk.to("accounts", told.strip() or "Logged out.")


async def check(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    """Run the checks of `cmsfs doctor`."""
    told = await commands.run(desk.drive.settings.account, "doctor", "--json", fails=False)
    try:
        found = json.loads(told)
    except ValueError:
        raise errors.UserError("The checks could not be made.") from None
    desk.browser.findings = found["checks"]
    return desk.to("accounts", "")


PAGES: dict[str, Page] = {"accounts": show}
FORMS: dict[str, Form] = {"login": log_in, "logout": log_out, "check": check}
