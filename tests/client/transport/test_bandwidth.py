"""Limits of bandwidth: kept over any stretch of time, shared by all streams, and as the time of day wants."""

import hashlib
import itertools
from datetime import datetime, time, timedelta

import pytest
import trio
import trio.testing
from starlette.responses import JSONResponse, Response

from cmsfs import config, errors
from cmsfs.auth import connect as auth_connect
from cmsfs.client.content.uploads import BytesSource
from cmsfs.client.transport import bandwidth
from cmsfs.models import base
from cmsfs.models.content import uploads

RATE = 100_000
SIZE = 1_000_000
DATA = bytes(SIZE)


def flow(up=None, down=None):
    return bandwidth.TransferLimits(up=lambda: up, down=lambda: down)


async def download(client):
    async with client.files.content("5") as pieces:
        return sum([len(piece) async for piece in pieces])


async def whole(request):
    return Response(DATA)


async def taken(request):
    body = await request.body()
    assert len(body) > SIZE
    sha1 = hashlib.sha1(DATA, usedforsecurity=False).hexdigest()
    return JSONResponse({"entries": [{"type": "file", "id": "5", "sha1": sha1}], "total_count": 1})


async def upload(client):
    attributes = uploads.UploadAttributes(name="f", parent=base.Reference(id="0"))
    sha1 = hashlib.sha1(DATA, usedforsecurity=False).hexdigest()
    await client.uploads.new_file(attributes, BytesSource(DATA), sha1=sha1)


async def test_a_download_is_as_slow_as_its_limit(connect, autojump_clock):
    client = await connect(whole, flow=flow(down=RATE, up=1))
    began = trio.current_time()
    assert await download(client) == SIZE
    assert trio.current_time() - began == pytest.approx(SIZE / RATE, abs=1.1)


async def test_an_upload_is_as_slow_as_its_limit(connect, autojump_clock):
    client = await connect(taken, flow=flow(up=RATE, down=1))
    began = trio.current_time()
    await upload(client)
    assert trio.current_time() - began == pytest.approx(SIZE / RATE, abs=1.1)


async def test_without_a_limit_nothing_waits(connect, autojump_clock):
    client = await connect(whole)
    began = trio.current_time()
    assert await download(client) == SIZE
    assert trio.current_time() == began


async def test_streams_share_bandwidth_limit(autojump_clock):
    line = bandwidth.DirectionLimit(lambda: RATE)
    times: dict[int, list[float]] = {number: [] for number in range(20)}

    async def stream(number):
        for _ in range(10):
            await line.throttle(bandwidth.PIECE)
            times[number].append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in times:
            nursery.start_soon(stream, number)
    total = 20 * 10 * bandwidth.PIECE / RATE
    assert trio.current_time() - began == pytest.approx(total, abs=1.1)
    gaps = [b - a for ends in times.values() for a, b in itertools.pairwise(ends)]
    assert max(gaps) < 20 * bandwidth.PIECE / RATE + 0.1


async def test_what_was_not_used_is_not_saved_up(autojump_clock):
    line = bandwidth.DirectionLimit(lambda: RATE)
    await line.throttle(RATE)
    await trio.sleep(3600)
    began = trio.current_time()
    await line.throttle(2 * RATE)
    assert trio.current_time() - began == pytest.approx(1.0, abs=0.01)


async def test_scheduled_limit_applies_mid_transfer(connect, autojump_clock):
    settings = config.Settings.model_validate(
        {"bandwidth": [{"from": "08:00", "to": "18:00", "down": "100kB/s"}], "download_limit": "none"}
    )
    midnight = trio.current_time()

    def clock():
        return datetime(2026, 11, 21, 17, 59, 55) + timedelta(seconds=trio.current_time() - midnight)

    client = await connect(whole, flow=auth_connect.flow_of(settings, clock))
    began = trio.current_time()
    assert await download(client) == SIZE
    # Five seconds at the limit (and a second's worth at once), then the rest at once.
    assert 4 < trio.current_time() - began < 7


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("2MB/s", 2_000_000),
        ("500 kB/s", 500_000),
        ("1.5MiB/s", 1_572_864),
        ("64k", 64_000),
        ("none", 0),
        (0, 0),
    ],
)
def test_how_a_rate_is_written(text, rate):
    assert config.Settings.model_validate({"upload_limit": text}).upload_limit == rate


@pytest.mark.parametrize("text", ["fast", "2 MB an hour", "-1", -1, "1kB/s", "2XB"])
def test_what_is_no_rate(text, tmp_path, monkeypatch):
    path = tmp_path / "config.toml"
    path.write_text(f"upload_limit = {text!r}\n")
    monkeypatch.setenv("CMSFS_CONFIG", str(path))
    with pytest.raises(errors.ConfigError, match="upload_limit"):
        config.load()


def test_first_matching_time_window_wins(tmp_path, monkeypatch):
    path = tmp_path / "config.toml"
    path.write_text(
        'upload_limit = "1MB/s"\n'
        '[[bandwidth]]\nfrom = "08:00"\nto = "18:00"\nup = "200kB/s"\ndown = "300kB/s"\n'
        '[[bandwidth]]\nfrom = "22:00"\nto = "06:00"\n'
    )
    monkeypatch.setenv("CMSFS_CONFIG", str(path))
    settings = config.load()
    assert settings.limits_at(time(7, 59)) == (1_000_000, 0)
    assert settings.limits_at(time(8)) == (200_000, 300_000)
    assert settings.limits_at(time(18)) == (1_000_000, 0)
    assert settings.limits_at(time(23)) == settings.limits_at(time(5, 59)) == (0, 0)
