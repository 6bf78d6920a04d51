"""Metadata queries: items by conditions on their instances, as far as the caller sees them, page by page."""

from typing import Any

import pytest

from tests.service.groups.conftest import group_of as group_of
from tests.service.groups.conftest import share_with
from tests.support import sharing

FIELDS = [
    {"type": "float", "key": "amount", "displayName": "Amount"},
    {"type": "string", "key": "customer", "displayName": "Customer"},
]


@pytest.fixture
async def contracts(api):
    """A folder with contracts of 0 to 6, the last without an amount; `source` is their template."""
    body = {"scope": "enterprise", "templateKey": "contract", "displayName": "Contract", "fields": FIELDS}
    template = await api.ask("POST", "/metadata_templates/schema", json=body, expect=201)
    folder = await api.folder("contracts")
    files = [await api.upload(f"c{at}.txt", b"c%d" % at, folder["id"]) for at in range(7)]
    for at, file in enumerate(files):
        data = {"customer": f"Customer {at % 2}"} | ({"amount": at * 10} if at < 6 else {})
        path = f"/files/{file['id']}/metadata/enterprise/contract"
        await api.ask("POST", path, json=data, expect=201)
    return {"folder": folder, "files": files, "source": f"{template['scope']}.contract"}


async def page(who, contracts, query=None, *, expect=200, folder="0", **more):
    body = {"from": contracts["source"], "ancestor_folder_id": folder} | more
    body |= {} if query is None else {"query": query}
    return await who.ask("POST", "/metadata_queries/execute_read", json=body, expect=expect)


async def names(who, contracts, query=None, **more):
    return [one["name"][:2] for one in (await page(who, contracts, query, **more))["entries"]]


async def test_items_are_found_by_their_metadata(api, contracts):
    assert await names(api, contracts) == ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]
    found = await names(
        api, contracts, "amount >= :least AND customer LIKE '%1'", query_params={"least": "30"}
    )
    assert found == ["c3", "c5"]
    assert await names(api, contracts, "amount IS NULL") == ["c6"]
    # It is true at once.
    path = f"/files/{contracts['files'][6]['id']}/metadata/enterprise/contract"
    patch = [{"op": "add", "path": "/amount", "value": 60}]
    await api.ask("PUT", path, json=patch, headers={"content-type": "application/json-patch+json"})
    assert await names(api, contracts, "amount > 45") == ["c5", "c6"]
    await api.ask("DELETE", path, expect=204)
    assert await names(api, contracts, "amount > 45") == ["c5"]


async def test_folders_are_found_and_trash_is_not(api, contracts):
    path = f"/folders/{contracts['folder']['id']}/metadata/enterprise/contract"
    await api.ask("POST", path, json={"amount": 20}, expect=201)
    await api.ask("DELETE", f"/files/{contracts['files'][2]['id']}", expect=204)
    assert await names(api, contracts, "amount = 20") == ["co"]


# Without an amount an item is behind, or before, those that have one.
@pytest.mark.parametrize(("direction", "wanted"), [("ASC", "0246135"), ("desc", "5316420")])
async def test_pages_in_order(api, contracts, direction, wanted):
    order = [{"field_key": name, "direction": direction} for name in ("customer", "amount")]
    whole = await names(api, contracts, order_by=order)
    seen, marker = [], None
    while True:
        found = await page(api, contracts, order_by=order, limit=2, marker=marker)
        assert found["limit"] == 2
        seen += [one["name"][:2] for one in found["entries"]]
        marker = found["next_marker"]
        if marker is None:
            break
        assert len(found["entries"]) == 2
    assert seen == whole == [f"c{at}" for at in wanted]


async def test_a_page_begins_behind_what_was_seen(api, contracts):
    first = await page(api, contracts, limit=3)
    await api.ask("DELETE", f"/files/{contracts['files'][1]['id']}", expect=204)
    assert await names(api, contracts, marker=first["next_marker"]) == ["c3", "c4", "c5", "c6"]
    assert (await page(api, contracts, limit=0))["entries"] == []
    assert (await page(api, contracts, limit=1000))["limit"] == 100


async def test_fields(api, contracts):
    source = contracts["source"]
    (plain,) = (await page(api, contracts, "amount = 10"))["entries"]
    assert plain["type"] == "file"
    assert "metadata" not in plain
    scope, key = source.split(".")
    asked = ["name", "created_by", f"metadata.{source}.amount"]
    (found,) = (await page(api, contracts, "amount = 10", fields=asked))["entries"]
    assert found["created_by"]["login"] == "ann@example.com"
    instance = found["metadata"][scope][key]
    assert (instance["amount"], instance["$template"]) == (10, "contract")
    assert "customer" not in instance
    (few,) = (await page(api, contracts, "amount = 10", fields=[f"metadata.{source}"]))["entries"]
    assert few["metadata"][scope][key].keys().isdisjoint({"amount", "customer"})


async def test_only_what_the_caller_sees_is_found(api, uwe, people, group_of, contracts):
    eva = await people.add("eva@elsewhere.example")
    files, folder = contracts["files"], contracts["folder"]
    assert await names(uwe, contracts) == []
    await sharing.share(api, files[1], uwe, "viewer")
    assert await names(uwe, contracts) == ["c1"]
    assert (await page(uwe, contracts, limit=1))["next_marker"] is None
    await share_with(api, folder, await group_of("readers", uwe), "viewer")
    assert len(await names(uwe, contracts)) == 7
    assert await names(uwe, contracts, "amount = 20", folder=folder["id"]) == ["c2"]
    other = await api.folder("other")
    assert await names(api, contracts, folder=other["id"]) == []
    await page(uwe, contracts, folder=other["id"], expect=404)
    await page(eva, contracts, expect=403)


async def test_what_is_no_query(api, contracts):
    bad: list[tuple[dict[str, Any], str | None]] = [
        ({"query": "nothing = 1"}, "invalid_query"),
        ({"query": "amount = :x"}, "invalid_query"),
        ({"order_by": [{"field_key": "nothing"}]}, "invalid_query"),
        (
            {
                "order_by": [
                    {"field_key": "amount", "direction": "ASC"},
                    {"field_key": "customer", "direction": "DESC"},
                ]
            },
            "invalid_query",
        ),
        ({"marker": "x"}, "invalid_parameter"),
        ({"query": "x" * 20_000}, None),
        ({"limit": -1}, None),
    ]
    for more, code in bad:
        refused = await page(api, contracts, expect=400, **more)
        assert code in (None, refused["code"])
    await page(api, contracts | {"source": "enterprise.nothing"}, expect=404)
    await page(api, contracts | {"source": "nothing"}, expect=400)
    await api.ask("POST", "/metadata_queries/execute_read", json={"from": "enterprise.contract"}, expect=400)


async def test_a_marker_of_another_order_is_refused(api, contracts):
    marker = (await page(api, contracts, limit=1))["next_marker"]
    order = [{"field_key": "amount"}]
    assert (await page(api, contracts, order_by=order, marker=marker, expect=400))[
        "code"
    ] == "invalid_parameter"
