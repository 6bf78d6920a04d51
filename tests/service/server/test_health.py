"""What load balancers ask."""

import sqlite3


async def test_the_service_lives_and_says_when_it_is_not_ready(api, service, monkeypatch, expect_log):
    async def ask(path):
        return (await api.http.get(f"http://service.test{path}", headers={"authorization": ""})).status_code

    assert (await ask("/healthz"), await ask("/readyz")) == (200, 200)

    async def broken(read):
        raise sqlite3.OperationalError("disk I/O error")

    expect_log("not ready: the database cannot be read")
    monkeypatch.setattr(service, "query", broken)
    assert (await ask("/healthz"), await ask("/readyz")) == (200, 503)
