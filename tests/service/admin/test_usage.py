"""What an enterprise asked for and stored, hour by hour, and its plots."""

import re

import trio

from cmsfs.service.admin import usage, usage_plots
from cmsfs.service.server import serve

HOUR = 3_600_000_000


def written(service):
    sql = "SELECT hour, requests, space_used FROM usage WHERE enterprise = 1 ORDER BY hour"
    return [tuple(row) for row in service.read(sql)]


async def test_requests_add_up_in_their_hour(service, api):
    await api.upload("a", b"x" * 1000)
    hour = usage.hour_of(service.now())
    counts = usage.RequestCounts({1: 5})
    await usage.write(service, counts)
    assert not counts
    counts[1] += 2
    await usage.write(service, counts)
    (first,) = written(service)
    assert first[0] in (hour, hour + 1)
    assert (first[1], first[2] >= 1000) == (7, True)
    # Nothing was asked, nothing is written.
    changed = service.written
    await usage.write(service, counts)
    assert service.written is changed


async def test_what_is_counted_is_written_at_the_end(service, api):
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        url = await nursery.start(
            lambda task_status: serve.serve(service, port=0, stop=stop, task_status=task_status)
        )
        headers = {"authorization": api.http.headers["authorization"]}
        async with type(api.http)() as client:
            for _ in range(3):
                assert (await client.get(f"{url}/2.0/users/me", headers=headers)).status_code == 200
        stop.set()
    assert sum(requests for _, requests, _ in written(service)) == 3


async def test_old_hours_are_forgotten(service):
    old = usage.hour_of(service.now()) - usage.KEPT_HOURS - 1
    await service.write(lambda conn: conn.execute("INSERT INTO usage VALUES (1, ?, 1, 1)", (old,)))
    await usage.write(service, usage.RequestCounts({1: 1}))
    assert old not in [hour for hour, _, _ in written(service)]


async def test_plots_show_every_hour_and_day(service, admin):
    hour = usage.hour_of(service.now())
    rows = [(1, hour - 3, 40, 5_000_000), (1, hour, 10, 2_000_000), (1, hour - 24 * 40, 9, 1_000_000)]
    await service.write(lambda conn: conn.executemany("INSERT INTO usage VALUES (?, ?, ?, ?)", rows))
    requests = usage_plots.of_requests(service.read, 1, hour)
    assert (requests.most, requests.total) == (40, 50)
    # Up in the hour of the 40, down after it, up by a quarter in the last.
    assert re.findall(r"V([\d.]+)", requests.path) == ["0.0", "120.0", "90.0", "120"]
    stored = usage_plots.of_stored(service.read, 1, hour)
    heights = [float(one) for one in re.findall(r"V([\d.]+)", stored.path)]
    assert stored.most == 5_000_000
    assert heights[:2] == [96.0, 0.0]  # what was stored forty days ago was stored until the day of the next
    text = await admin.open("/admin")
    assert requests.path in text
    assert "50 in all, 40 at most" in text
    assert "4.8 MiB at most" in text
    assert ",40,5000000\r\n" in await admin.open("/admin/reports/usage")


async def test_an_enterprise_without_usage_has_empty_plots(service, admin):
    assert "0 in all, 0 at most" in await admin.open("/admin")
