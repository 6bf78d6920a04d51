"""The tokens of drives in stories."""

import trio

from cmsfs import config
from tests.simulation import story, surroundings
from tests.simulation.disk import Disks
from tests.simulation.logins import Login
from tests.simulation.machines import Service
from tests.simulation.world import EPOCH, World, acting

MONTH = 30 * 86_400


def test_a_machine_with_a_wrong_clock_logs_in_by_the_clock_of_the_service() -> None:
    """Else the service's times are a month late until it restarts, and what changes then looks old."""
    with surroundings.temporary_home() as home:
        user = surroundings.copy_template(home / "service")
        world = World("login")
        world.skew["one"] = MONTH
        service = Service(world, Disks(), home / "service", story.Plan(1))
        paths = config.Paths("one")
        paths.ensure()
        login = Login(paths, service, user)

        async def log_in() -> int:
            async with trio.open_nursery() as nursery:
                await service.start(nursery)
                with acting("one"):
                    await login.log_in()
                    login.note_stored()
                now = service.store.now()
                await service.stop()
            return now

        assert world.run(log_in) / 1e6 < EPOCH + MONTH
