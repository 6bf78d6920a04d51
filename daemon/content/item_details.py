"""Fetches details of single items on demand and caches them for a while.

Listings bring what the drive needs of every item.  All other fields and metadata are asked for by name, an
item at a time, one request for each; nothing is ever asked because attributes are listed.  An answer holds
while the item's etag is the same, and not longer than `FRESH_SECONDS`, since not every change counts it.

Rule: whoever waits here waits a few seconds at most; what was known before is better than nothing.
"""

import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from cmsfs import errors
from cmsfs.client.content.items import ItemKind, detail_fields
from cmsfs.client.history.item_history import ItemHistory
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.replica import item_details, kv_store
from cmsfs.replica.item_details import DetailSubject
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Connection, Database
from cmsfs.vfs import errno_map
from cmsfs.vfs.metadata_values import ValuePlace
from daemon.content import policy_reader
from daemon.core import item_search
from daemon.core.health import Health
from daemon.core.supervisor import Starts
from daemon.push.metadata_writer import MetadataWriter

log = logging.getLogger(__name__)

# Metadata, locks and links can change without another etag: what was asked is asked again after this.
FRESH_SECONDS = 300
# Policies are made by few people and seldom; reading them takes a request for each.
POLICIES_SECONDS = 600
# After a refusal, or a failure, of reading them.
REFUSED_SECONDS = 3600

# How often they are read when nobody asks.
LOOK_SECONDS = 3600.0

# They are first read this long after the start, unless somebody deletes or asks earlier: programs that look
# around a drive that has just been mounted wait for the service.
START_SECONDS = 10.0

# Somebody waits in a system call.
WAIT_SECONDS = 5.0

_ITEM_KINDS: dict[NodeKind, ItemKind] = {
    NodeKind.FILE: "file",
    NodeKind.FOLDER: "folder",
    NodeKind.LINK: "web_link",
}


class ItemDetails:
    """Implements `ItemDetailsPort` of the vfs over one client."""

    def __init__(
        self,
        db: Database,
        client: Client,
        health: Health,
        nursery: Starts,
        metadata_writer: MetadataWriter,
        *,
        has_events: bool,
    ) -> None:
        self._has_events = has_events
        self._metadata_writer = metadata_writer
        self._db = db
        self._client = client
        self._health = health
        self._nursery = nursery
        self._asking: dict[object, trio.Event] = {}
        self._history = ItemHistory(client)
        # Whether the first reading of policies is still to come, and that it is wanted now.
        self._is_put_off = False
        self._wanted = trio.Event()

    async def learn(self, node: Node, about: DetailSubject) -> None:
        """As `ports.ItemDetailsPort.learn`."""
        known = item_details.find(self._db, node.ino, about)
        if item_details.is_current(known, node, now=int(clock.time()), seconds=FRESH_SECONDS):
            return
        kind = _ITEM_KINDS.get(node.kind)
        if kind is None or node.remote_id is None:
            return
        if about is DetailSubject.METADATA and (kind == "web_link" or node.ino == ROOT):
            return
        if not self._health.can_ask:
            if known is None:
                self._health.check()
            return

        async def ask() -> None:
            await self._ask(node, kind, about)

        await self._once((node.ino, about), ask)
        if item_details.find(self._db, node.ino, about) is None:
            self._health.check()
            raise errno_map.oserror(errno.ETIMEDOUT, node.name)

    async def history(self, node: Node) -> list[str]:
        """As `ports.ItemDetailsPort.history`."""
        kind = _ITEM_KINDS.get(node.kind)
        if kind is None or node.remote_id is None or not self._has_events:
            return []
        self._health.check()
        try:
            with trio.fail_after(WAIT_SECONDS), self._health.request("facts"):
                found = await self._history.of(kind, node.remote_id)
        except trio.TooSlowError:
            # What was read by now is kept: who asks again waits for the rest.
            raise errno_map.oserror(errno.ETIMEDOUT, node.name) from None
        except errors.RemoteError as error:
            raise errno_map.to_oserror(error) from error
        return [f"{at.astimezone():%Y-%m-%d %H:%M:%S}  {who}  {what}" for at, who, what in found]

    async def _once(self, key: object, ask: Callable[[], Awaitable[None]]) -> None:
        """Have something asked, once however many want to know, and wait for it for a while."""
        if (asking := self._asking.get(key)) is None:
            asking = self._asking[key] = trio.Event()

            async def run(done: trio.Event = asking) -> None:
                try:
                    await ask()
                except errors.RemoteError as error:
                    log.info("an item's details could not be read: %s", error)
                finally:
                    del self._asking[key]
                    done.set()

            self._nursery.start_soon(run, name="facts")
        with trio.move_on_after(WAIT_SECONDS):
            await asking.wait()

    async def _ask(self, node: Node, kind: ItemKind, about: DetailSubject) -> None:
        assert node.remote_id is not None
        try:
            with self._health.request("facts"):
                value = await self._answer(node.remote_id, kind, about)
        except (errors.NotFound, errors.Forbidden, errors.NotSupported):
            # It has nothing to say to us, and would not have in a moment either.
            value = {} if about is DetailSubject.ITEM else []
        await self._db.write(lambda conn: _keep(conn, node, about, value))

    async def _answer(self, item_id: str, kind: ItemKind, about: DetailSubject) -> Any:
        if Ability.ITEMS in self._client.offers.lacking:
            return await self._searched(item_id, kind, about)
        if about is DetailSubject.ITEM:
            return (await self._client.items.details(kind, item_id)).model_dump(
                mode="json", exclude_none=True
            )
        assert kind != "web_link"
        return [one.model_dump(by_alias=True) for one in await self._client.metadata.instances(kind, item_id)]

    async def _searched(self, item_id: str, kind: ItemKind, about: DetailSubject) -> Any:
        """The same, of what a search shows."""
        fields = detail_fields(kind) if about is DetailSubject.ITEM else ["metadata"]
        found = await item_search.find(self._db, self._client, NodeKind(kind), item_id, fields=fields)
        if about is DetailSubject.ITEM:
            return found.model_dump(mode="json", exclude_none=True)
        scopes = getattr(found, "metadata", None) or {}
        return [instance for templates in scopes.values() for instance in templates.values()]

    # ---- policies ----

    async def run(self) -> None:
        """Have policies known before anybody asks: what they protect is deleted with care; for ever."""
        await self._health.reachable()
        self._is_put_off = True
        with trio.move_on_after(START_SECONDS):
            await self._wanted.wait()
        while True:
            await self._health.reachable()
            await self.learn_policies()
            self._is_put_off = False
            await trio.sleep(LOOK_SECONDS)

    async def learn_before_deletion(self) -> None:
        """Wait for the first reading of policies, which is put off after a start; never fails."""
        if self._is_put_off:
            self._wanted.set()
            await self.learn_policies()

    async def learn_policies(self) -> None:
        """As `ports.ItemDetailsPort.learn_policies`."""
        if not self._are_policies_old() or not self._health.can_ask:
            return
        await self._once("policies", self._read_policies)

    def _are_policies_old(self) -> bool:
        read = int(kv_store.get(self._db, item_details.POLICIES_AT) or 0)
        refused = kv_store.get(self._db, item_details.POLICIES_REFUSED)
        return not 0 <= clock.time() - read < (REFUSED_SECONDS if refused else POLICIES_SECONDS)

    async def _read_policies(self) -> None:
        refusal = ""
        found: list[item_details.PolicyAssignment] = []
        in_force = ""
        if Ability.POLICIES in self._client.offers.lacking:
            in_force = "; ".join(await self._holds_in_force())
        try:
            if Ability.POLICIES in self._client.offers.lacking:
                raise errors.NotSupported(405, "not_offered")
            with self._health.request("policies"):
                found = await policy_reader.all_assignments(self._client)
        except (errors.Forbidden, errors.NotFound, errors.NotSupported) as error:
            refusal = error.code or "forbidden"

        def txn(conn: Connection) -> None:
            item_details.replace_assignments(conn, found)
            kv_store.put(conn, item_details.POLICIES_AT, str(int(clock.time())))
            kv_store.put(conn, item_details.POLICIES_REFUSED, refusal)
            kv_store.put(conn, item_details.HOLDS_IN_FORCE, in_force)

        await self._db.write(txn)

    async def _holds_in_force(self) -> list[str]:
        """The names of legal holds on anything; none for who may not know them."""
        try:
            with self._health.request("policies"):
                return [name async for name in policy_reader.holds_in_force(self._client)]
        except (errors.Forbidden, errors.NotFound, errors.NotSupported):
            return []

    # ---- metadata ----

    async def judge_metadata(self, place: ValuePlace, text: str) -> None:
        """As `ports.ItemDetailsPort.judge_metadata`."""
        if not self._health.can_ask:
            return
        with trio.move_on_after(WAIT_SECONDS):
            try:
                await self._metadata_writer.judge(place, text)
            except errors.RemoteError as error:
                log.info("a metadata template could not be read: %s", error)

    async def set_metadata(self, node: Node, place: ValuePlace, text: str | None) -> None:
        """As `ports.ItemDetailsPort.set_metadata`."""
        self._health.check()
        kind = _ITEM_KINDS.get(node.kind)
        if kind not in ("file", "folder") or node.remote_id is None or node.ino == ROOT:
            raise errno_map.oserror(errno.ENOTSUP, node.name)
        try:
            with trio.fail_after(WAIT_SECONDS):
                # What is on the item now: a value that changes after this look is not written over.
                await self._ask(node, kind, DetailSubject.METADATA)
                await self._metadata_writer.change(
                    kind, node.remote_id, self._instances(node.ino), place, text
                )
                await self._ask(node, kind, DetailSubject.METADATA)
        except trio.TooSlowError:
            raise errno_map.oserror(errno.ETIMEDOUT, node.name) from None
        except errors.RemoteError as error:
            raise errno_map.to_oserror(error) from error

    def _instances(self, ino: Ino) -> list[Any]:
        fact = item_details.find(self._db, ino, DetailSubject.METADATA)
        return fact.value if fact is not None else []


def _keep(conn: Connection, node: Node, about: DetailSubject, value: Any) -> None:
    item_details.put(conn, node.ino, about, value, etag=node.etag, at=int(clock.time()))
