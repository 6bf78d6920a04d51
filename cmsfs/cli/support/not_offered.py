"""A hint for "there is no such item" errors at services that may lack the operation itself."""

import trio

from cmsfs import config, errors
from cmsfs.auth import connect
from cmsfs.client import offers

SECONDS = 10.0


def hint(account: str | None) -> str:
    """Return a sentence on what the account's service cannot do, with a leading space; "" if it offers
    everything."""
    settings = config.load(account)
    if not config.profile(settings).varies:
        return ""

    async def ask() -> offers.Findings:
        with trio.fail_after(SECONDS):
            async with connect.open_backend(settings) as client:
                addresses = client.endpoints
                return await offers.find_out(client.wire, addresses.base_url, addresses.upload_url)

    try:
        lacking = trio.run(ask).lacking
    except (errors.CmsfsError, trio.TooSlowError):
        return ""
    if not lacking:
        return ""
    return f" Or it takes what this service cannot do: {', '.join(one.cannot for one in sorted(lacking))}."
