"""A login that is refused, and what tells the drive of a new one."""

from typing import Any

import pytest
import trio

from cmsfs import config, errors
from daemon.health import Health, State
from daemon.logins import Logins


class Service:
    """Refuses the login until there is a new one."""

    def __init__(self) -> None:
        self.is_mended = False
        self.asked = 0

    async def probe(self) -> None:
        self.asked += 1
        if not self.is_mended:
            raise errors.NeedsLogin("log in")


async def _long_refused(service: Service, nursery: trio.Nursery, settings: config.Settings) -> Health:
    health = Health()
    nursery.start_soon(health.run, service.probe)
    nursery.start_soon(Logins(settings, health).run)
    health.failed(errors.NeedsLogin("log in"))
    await trio.sleep(600)
    assert health.state is State.UNAUTHORISED
    return health


@pytest.mark.parametrize("changed", ["token", "lock", "configuration"])
async def test_a_new_login_is_noticed_within_seconds(
    nursery: trio.Nursery, autojump_clock: Any, changed: str
) -> None:
    settings = config.Settings()
    settings.paths.ensure()
    config.config_file().parent.mkdir(parents=True, exist_ok=True)
    files = {
        "token": settings.paths.token,
        "lock": settings.paths.token_lock,
        "configuration": config.config_file(),
    }
    service = Service()
    health = await _long_refused(service, nursery, settings)
    service.is_mended = True
    files[changed].write_text("")
    with trio.fail_after(3):
        await health.reachable()


async def test_while_nothing_changes_the_service_is_asked_seldom(
    nursery: trio.Nursery, autojump_clock: Any
) -> None:
    service = Service()
    await _long_refused(service, nursery, config.Settings())
    before = service.asked
    await trio.sleep(600)
    assert service.asked - before < 40
