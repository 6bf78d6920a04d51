"""Settings of drives that learn all changes from the stream of events."""

import pytest

from cmsfs import config


@pytest.fixture
def events_only() -> config.Settings:
    # An interval that no test waits for: what shows was told by the service.
    return config.Settings(
        settle_seconds=0,
        network_seconds=5,
        feed="events",
        poll_seconds=3600,
        idle_poll_seconds=3600,
        shared="root",
    )
