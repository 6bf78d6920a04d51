"""Random searches find the same on SQLite and on PostgreSQL, and what a plain evaluator says."""

import json
import os
import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from cmsfs.service.storage import store
from tests.support.search_oracle import (
    RandomSearch,
    SearchedItem,
    SearchMaker,
    moment,
    page_of,
    random_text,
    words,
)
from tests.support.sharing import share

ITEMS = 90
TWINS = 8  # files that no word tells apart: their relevance is equal
START = 1_700_000_000
KINDS = ("folder", "file", "web_link")
SEED = int(os.environ.get("CMSFS_SEARCH_SEED", "7"))


class Filled:
    """A store, its caller, and the ids of its items in the order in which they were made."""

    def __init__(self, service, api, uwe, elsewhere):
        self.service = service
        self.api = api
        self.uwe = uwe
        self.elsewhere = elsewhere  # the caller `api` at another process
        self.users = {"ann@example.com": str(api.user), "uwe@example.com": str(uwe.user)}
        self.ids = []
        self.said = []  # what the test wrote, by column

    async def fill(self, chance):
        shared = await self._add(chance, self.uwe, "folder", "0")
        await share(self.uwe, {"type": "folder", "id": shared}, self.api, "viewer")
        folders = {self.api: ["0", "0"], self.uwe: ["0", shared]}
        for _ in range(ITEMS):
            caller = chance.choice([self.api, self.api, self.uwe])
            kind = chance.choice(["file", "file", "file", "folder", "web_link"])
            made = await self._add(chance, caller, kind, chance.choice(folders[caller]))
            if kind == "folder":
                folders[caller].append(made)
        for _ in range(TWINS):
            await self._add(chance, self.api, "file", "0", text="ant bee")
        for wire_id in chance.sample([one for one in self.ids if one not in folders[self.uwe]], 8):
            row = self._row(wire_id)
            caller = self.api if row["owner"] == self.api.user else self.uwe
            path = f"/{KINDS[row['kind']]}s/{wire_id}"
            if row["status"] == 0:
                await caller.ask("DELETE", path + "?recursive=true" * (row["kind"] == 0), expect=204)
        times = [(START + chance.randrange(60), START + chance.randrange(60)) for _ in self.ids]

        def txn(conn):
            for wire_id, (created, modified) in zip(self.ids, times, strict=True):
                conn.execute(
                    "UPDATE item SET created_at = ?, modified_at = ? WHERE id = ?",
                    (created * 1_000_000, modified * 1_000_000, int(wire_id)),
                )

        await self.service.write(txn)

    async def _add(self, chance, caller, kind, parent, *, text=None):
        """Create an item with random texts, or with this one in all places."""
        extension = chance.choice(["txt", "md", "été", "csv"])

        def some(most):
            return random_text(chance, most) if text is None else text

        name = f"{some(3)}{len(self.ids)}".replace(":", "").strip("._")
        if kind == "file":
            name += f".{extension}"
        said: dict[str, Any] = {
            "name": name[-200:],
            "description": some(5)[:256],
            "tags": [one for one in (some(2).replace(",", "")[:100] for _ in range(2)) if one],
            "file_content": some(30) if kind == "file" else "",
            "comments": [some(4) + "." for _ in range(chance.choice([0, 0, 0, 2]) if text is None else 0)],
        }
        match kind:
            case "folder":
                made = await caller.folder(said["name"], parent)
            case "file":
                made = await caller.upload(said["name"], said["file_content"].encode(), parent)
            case _:
                made = await caller.link(said["name"], parent)
        path = f"/{kind}s/{made['id']}"
        if kind == "web_link":
            said["tags"] = []
        if kind != "file":
            said["comments"] = []
        change = {"description": said["description"]} | ({"tags": said["tags"]} if said["tags"] else {})
        kept = await caller.ask("PUT", path, params={"fields": "name,description,tags"}, json=change)
        said |= {key: value for key, value in kept.items() if key in said and value}
        for message in said["comments"]:
            body = {"item": {"type": kind, "id": made["id"]}, "message": message}
            await caller.ask("POST", "/comments", json=body, expect=201)
        self.ids.append(made["id"])
        self.said.append(said)
        return made["id"]

    def _row(self, wire_id):
        return self.service.read("SELECT * FROM item WHERE id = ?", int(wire_id))[0]

    def items(self):
        """The items as the evaluator sees them, each by its place in the order of making."""
        places = {wire_id: place for place, wire_id in enumerate(self.ids)}
        logins = {number: login for login, number in self.users.items()}
        for place, (wire_id, said) in enumerate(zip(self.ids, self.said, strict=True)):
            row = self._row(wire_id)
            above = frozenset(places[one] for one in row["path"].split("/") if one in places)
            texts = {
                "name": words(said["name"]),
                "description": words(said["description"]),
                "tags": words(" ".join(said["tags"])),
                "file_content": words(said["file_content"]),
                "comments": words(" ".join(said["comments"])),
            }
            owner = logins[str(row["owner"])]
            yield SearchedItem(
                *(place, KINDS[row["kind"]], texts, above, owner, row["status"], row["size"] or 0),
                *(row["extension"], row["created_at"] // 1_000_000, row["modified_at"] // 1_000_000),
                # Of others, what is shared and in no trash.
                owner == "ann@example.com" or ((place == 0 or 0 in above) and row["status"] == 0),
            )

    async def search(self, wish: RandomSearch, page, *, at=None):
        params = {"query": wish.text} | wish.params | page
        if wish.ancestors:
            params["ancestor_folder_ids"] = ",".join(self.ids[place] for place in wish.ancestors)
        if wish.owners:
            params["owner_user_ids"] = ",".join(self.users[login] for login in wish.owners)
        found = await (at or self.api).ask("GET", "/search", params=params)
        places = {wire_id: place for place, wire_id in enumerate(self.ids)}
        return found["total_count"], [places[one["id"]] for one in found["entries"]]


@pytest.fixture
async def both(tmp_path, postgres, fill, as_user):
    """Two stores with the same in them, one on each engine."""
    url = postgres.database()
    async with AsyncExitStack() as stack:
        made = {}
        for engine, place in (("SQLite", None), ("PostgreSQL", url)):
            opened = await stack.enter_async_context(store.open_store(tmp_path / engine, database_url=place))
            await fill(opened)
            logins = ("ann@example.com", "uwe@example.com", "ann@example.com")
            callers = [await as_user(opened, login) for login in logins]
            made[engine] = Filled(opened, *callers)
            await made[engine].fill(random.Random(SEED))
        yield made
    postgres.drop(url)


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.long)])
@pytest.mark.timeout(1800)
async def test_random_searches(both, count):
    chance = random.Random(SEED)
    items = [*both["SQLite"].items()]
    assert items == [*both["PostgreSQL"].items()]
    maker = SearchMaker(chance, items)
    found_some = 0
    for number in range(count):
        wish = maker.make()
        expected = wish.matches(items)
        found_some += bool(expected)
        page = {"limit": 200, "offset": 0}
        if wish.is_ordered:
            page = {"limit": chance.randint(1, 20), "offset": chance.randint(0, len(expected))}
        said = json.dumps(
            [number, wish.text, wish.params, wish.ancestors, wish.owners, page], ensure_ascii=False
        )
        for engine, filled in both.items():
            total, places = await filled.search(wish, page)
            there = page_of(expected, page)
            if not wish.is_ordered:
                places.sort()
                there.sort()
            assert (total, places) == (len(expected), there), f"{engine}: {said}"
    assert found_some > count / 4


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.timeout(1800)
async def test_every_page_of_random_searches(both, count):
    """Pages of any length, asked in any order at one of two processes, make up the whole answer."""
    chance = random.Random(SEED + 1)
    items = [*both["SQLite"].items()]
    maker = SearchMaker(chance, items)
    with_pages = 0
    for number in range(count):
        wish = maker.make()
        expected = wish.matches(items)
        pages = []
        end = 0
        while end <= len(expected):  # the last page is short or empty
            pages.append({"limit": chance.choice((1, 1, 2, 5, 12)), "offset": end})
            end += pages[-1]["limit"]
        with_pages += len(pages) > 2
        if chance.randrange(2):
            chance.shuffle(pages)  # otherwise the first page leaves something for the others
        said = json.dumps([number, wish.text, wish.params, wish.ancestors, wish.owners], ensure_ascii=False)
        for engine, filled in both.items():
            found = {}
            for page in pages:
                at = chance.choice([filled.api, filled.elsewhere])
                total, places = await filled.search(wish, page, at=at)
                counts = (total, len(places))
                assert counts == (len(expected), len(page_of(expected, page))), f"{engine}, {page}: {said}"
                found[page["offset"]] = places
            places = [place for offset in sorted(found) for place in found[offset]]
            if wish.is_ordered:
                assert places == expected, f"{engine}: {said}"
            else:
                # The order is the engine's own, and the same for every page.
                whole = (await filled.search(wish, {"limit": 200, "offset": 0}))[1]
                assert (places, sorted(places)) == (whole, sorted(expected)), f"{engine}: {said}"
    assert with_pages > count / 4


def test_moments_are_whole_seconds():
    assert moment(START) == "2023-11-14T22:13:20Z"
