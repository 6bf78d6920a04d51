"""What `cmsfs serve --metrics` tells Prometheus."""

import logging
import re
import sys

import httpx
import pytest
import trio
from prometheus_client import parser

from cmsfs import errors
from cmsfs.service.server import serve


@pytest.fixture
async def urls(service, nursery, caplog):
    """Where the service is, and where its metrics are."""
    caplog.set_level(logging.INFO, "cmsfs.service.server")
    url = await nursery.start(
        lambda task_status: serve.serve(
            service, port=0, metrics_address=("127.0.0.1", 0), task_status=task_status
        )
    )
    with trio.fail_after(10):
        while not (found := re.search(r"metrics at (\S+)", caplog.text)):
            await trio.lowlevel.checkpoint()
    return url, found[1]


async def scrape(client, address):
    answer = await client.get(address, headers={"accept": "text/plain; version=0.0.4"})
    assert answer.status_code == 200
    families = parser.text_string_to_metric_families(answer.text)
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


async def test_requests_and_what_is_stored_are_counted(api, urls):
    url, address = urls
    headers = {"authorization": api.http.headers["authorization"]}
    await api.upload("secret plan.txt", b"x" * 1234)
    async with httpx.AsyncClient() as client:
        for wire_id in ("0", "0", "987654321012"):
            await client.get(f"{url}/2.0/folders/{wire_id}", headers=headers)
        # A client has its answer a moment before the request is counted.
        with trio.fail_after(20):
            while (found := await scrape(client, address))["cmsfs_requests_in_progress",]:
                pass
        text = (await client.get(address)).text
    assert found["cmsfs_requests_total", "GET", "/2.0/folders/{id}", "200"] == 2
    assert found["cmsfs_requests_total", "GET", "/2.0/folders/{id}", "404"] == 1
    assert found["cmsfs_request_seconds_count", "GET", "/2.0/folders/{id}"] == 3
    assert found["cmsfs_sent_bytes_total",] > 300
    assert found["cmsfs_stored_bytes",] >= 1234
    assert found["cmsfs_users",] >= 1
    assert found["cmsfs_waiting", "uploads"] == 0
    assert 1 <= found["cmsfs_connections",] <= found["cmsfs_connections_limit",]
    assert found["process_resident_memory_bytes",] > 1_000_000
    assert "secret" not in text
    assert "987654321012" not in text


async def test_long_polls_do_not_spoil_the_durations(api, urls):
    url, address = urls
    headers = {"authorization": api.http.headers["authorization"]}
    async with httpx.AsyncClient() as client, trio.open_nursery() as nursery:
        answer = await client.request("OPTIONS", f"{url}/2.0/events", headers=headers)
        target = answer.json()["entries"][0]["url"]
        nursery.start_soon(lambda: client.get(target, headers=headers, timeout=60))
        with trio.fail_after(20):
            while (await scrape(client, address))["cmsfs_long_polls",] != 1:
                pass
        nursery.cancel_scope.cancel()


async def test_the_metrics_have_a_port_of_their_own(api, urls):
    url, address = urls
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/metrics")).status_code == 404
        assert (await client.get(address.removesuffix("/metrics") + "/2.0/users/me")).status_code == 404
        assert (await client.post(address)).status_code == 405


async def test_a_missing_library_is_told(service, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(errors.UserError, match=r"cmsfs\[server\]"):
        await serve.serve(service, port=0, metrics_address=("127.0.0.1", 0))
