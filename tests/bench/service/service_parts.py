"""Further parts of the service's benchmark: an archive of ten thousand files, and metadata queries."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx
import trio

from cmsfs.service.storage import store

KEY = "measured"
_FIELDS = [
    {"type": "float", "key": "number", "displayName": "Number"},
    {"type": "string", "key": "word", "displayName": "Word"},
]
_BATCH = 100_000
_DESCRIBE = """
  INSERT OR IGNORE INTO metadata_instance (uuid, item, template, data, type_version)
    SELECT printf('%08x-0000-4000-8000-000000000000', id), id,
        (SELECT id FROM metadata_template WHERE key = ?),
        json_object('number', id % 1000 + 0.0, 'word', 'w' || (id % 100000)), 0
      FROM item WHERE kind = 0 AND id BETWEEN ? AND ?
"""


class Caller(Protocol):
    """What is used of the benchmark."""

    root: Path
    http: httpx.Client

    def milliseconds(
        self, what: str, action: Callable[[], object], *, fresh: bool = True, times: int = 5
    ) -> None: ...
    def add(self, what: str, figure: str, processor: float | None = None) -> None: ...
    def worked(self) -> float: ...
    def folder(self, path: str) -> str: ...


def measure(bench: Caller) -> None:
    archive(bench)
    queries(bench)


def archive(bench: Caller) -> None:
    """Measure the download of a folder as one archive."""
    wish = {"download_file_name": "all", "items": [{"type": "folder", "id": bench.folder("projects/p000")}]}
    worked, began = bench.worked(), time.perf_counter()
    asked = bench.http.post("/zip_downloads", json=wish).raise_for_status().json()
    bench.add(
        "archive of a folder, asked for",
        f"{(time.perf_counter() - began) * 1000:10,.1f} ms",
        bench.worked() - worked,
    )
    worked, began = bench.worked(), time.perf_counter()
    with bench.http.stream("GET", asked["download_url"]) as answer:
        size = sum(len(chunk) for chunk in answer.raise_for_status().iter_raw())
    took = time.perf_counter() - began
    told = bench.http.get(asked["status_url"]).raise_for_status().json()
    assert told["state"] == "succeeded", told
    files = told["downloaded_file_count"]
    bench.add(
        f"archive of {files:,} files, {size / 1e6:.1f} MB",
        f"{took * 1000:10,.0f} ms",
        bench.worked() - worked,
    )
    bench.add("files of it", f"{files / took:10,.0f} files/s")


def queries(bench: Caller) -> None:
    """Each file of the store has a number below 1,000, and a word that few have."""
    made = {"scope": "enterprise", "templateKey": KEY, "displayName": KEY, "fields": _FIELDS}
    answer = bench.http.post("/metadata_templates/schema", json=made)
    if answer.status_code != 409:
        answer.raise_for_status()
        trio.run(_describe, bench.root)
    template = bench.http.get(f"/metadata_templates/enterprise/{KEY}/schema").raise_for_status().json()
    where = f"{template['scope']}.{KEY}"

    def ask(query: str | None, **more: Any) -> dict[str, Any]:
        body = {"from": where, "ancestor_folder_id": "0", "limit": 100, "fields": ["name"]} | more
        found: dict[str, Any] = (
            bench.http.post("/metadata_queries/execute_read", json=body | ({"query": query} if query else {}))
            .raise_for_status()
            .json()
        )
        return found

    word, number = {"query_params": {"word": "w77"}}, {"query_params": {"number": 998}}
    latest = {"order_by": [{"field_key": "number", "direction": "DESC"}]}
    bench.milliseconds("metadata query, a word that few have", partial(ask, "word = :word", **word))
    bench.milliseconds(
        "metadata query, a thousandth, page of 100", partial(ask, "number > :number", **number)
    )
    bench.milliseconds("metadata query, everything, page of 100", partial(ask, None))
    bench.milliseconds("metadata query, everything by number", partial(ask, None, **latest))


async def _describe(root: Path) -> None:
    async with store.open_store(root) as opened:
        last = opened.read("SELECT max(id) AS last FROM item")[0]["last"]
        for first in range(0, last + 1, _BATCH):
            values = (KEY, first, first + _BATCH - 1)
            await opened.write(lambda conn, values=values: conn.execute(_DESCRIBE, values))  # type: ignore[misc]
