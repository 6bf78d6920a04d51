"""getxattr, listxattr, setxattr and removexattr, dispatched to the modules of `vfs.attrs`.

Each module of `attrs` handles one kind of attribute; this one selects it by the name.  A listing has the most
useful attributes that are known locally: listing never sends a request, since `ls -l` and file managers list
every file.  Reading a single attribute may send one.

Read-only attributes cannot be set, but copying programs try to set those that they found in a listing, and
remove those that a listing of the copy has in addition.  `cp -a`, `mv` and `tar` ignore ENOTSUP, `rsync -X`
does not.  So setting or removing a listed attribute is silently ignored, and for all others raises ENOTSUP.
Transient values (`sync`) are not listed, so that they are not copied.

Rule: raises `OSError` only.
"""

import errno
import json
from collections.abc import Awaitable, Callable
from sqlite3 import Connection
from typing import Any

from cmsfs.cache.blocks import BlockCache
from cmsfs.models.content import metadata
from cmsfs.replica import item_details, pins, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.item_details import DetailSubject
from cmsfs.replica.nodes import IN_COLUMNS, Node, NodeKind
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map, metadata_values
from cmsfs.vfs.attrs import description_tags, item_fields, policies, sync_status, user_xattrs
from cmsfs.vfs.attrs.item_fields import PREFIX
from cmsfs.vfs.permissions import NodeRight
from cmsfs.vfs.ports import FavoritesPort, ItemDetailsPort, PinsPort
from cmsfs.vfs.tree import link_url
from cmsfs.vfs.tree.limits import ServiceLimits

Commit = Callable[[Callable[[Connection], None]], Awaitable[None]]

# Writable.  1 keeps the item, and everything below it, available offline.
PINNED = "pinned"
# Writable.  1 adds the item to the account's favorites; not listed, or copies would become favorites, too.
FAVORITE = "favorite"
# Requested anew each time; not listed.
HISTORY = "history"
SYNC = "sync"
CACHED = "cached"

LOCAL = frozenset({SYNC, PINNED, CACHED})

# Fields of an item that are in its row or in every listing; all others are requested.
KEPT = IN_COLUMNS | {
    "created_at",
    "modified_at",
    "content_modified_at",
    "url",
    "owned_by",
    "description",
    "tags",
    "classification",
    "lock",
    "expires_at",
    "disposition_at",
}

# Attributes that a listing has if they have a value, besides known metadata and programs' own attributes.
LISTED = (
    "owner",
    "description",
    "tags",
    "classification",
    "lock",
    "shared_link",
    "watermark",
    "expires_at",
    "hold",
    "retention",
    "retention.until",
)

_PLACES = {field.name: field.place.partition(".")[0] for field in item_fields.FIELDS}


class Xattrs:
    """The extended attributes of the tree."""

    def __init__(
        self,
        db: Database,
        blocks: BlockCache,
        item_details: ItemDetailsPort | None,
        favorites: FavoritesPort | None,
        pins: PinsPort | None,
        change: Commit,
        due: Callable[[], int],
        allowed: Callable[[Node, NodeRight], Awaitable[None]],
        limits: ServiceLimits,
        link_urls: link_url.LinkUrls,
    ) -> None:
        self._link_urls = link_urls
        self._db = db
        self._blocks = blocks
        self._item_details = item_details
        self._favorites = favorites
        self._pins = pins
        self._change = change
        self._due = due
        self._allowed = allowed
        self._limits = limits

    # ---- reading -------------------------------------------------------------------------------

    async def value(self, node: Node, name: str) -> bytes:
        """Return the value of an attribute.

        May send a request, one for many names.  Raises `OSError`: ENODATA if the node has no such attribute,
        ENETDOWN or ETIMEDOUT if the service is needed but not reachable.
        """
        if (found := await self._find(node, name)) is None:
            raise errno_map.oserror(errno.ENODATA, name)
        return found if isinstance(found, bytes) else found.encode()

    async def _find(self, node: Node, name: str) -> str | bytes | None:
        if node.kind is NodeKind.LINK and name in (link_url.XDG, PREFIX + link_url.WORD):
            return await self._link_urls.find(node) or self._item(node).get("url")
        if not name.startswith(PREFIX):
            return self._named_by_others(node, name)
        key = name.removeprefix(PREFIX)
        if key in LOCAL:
            return self._local(node, key)
        if key == FAVORITE:
            found = None if self._favorites is None or node.local else await self._favorites.find(node)
            return None if found is None else str(int(found))
        if key == HISTORY and self._item_details is not None and not node.local:
            return "\n".join(await self._item_details.history(node)) or None
        if key in policies.NAMES:
            return await self._policy(node, key)
        if key == metadata_values.WORD or metadata_values.place(key) is not None:
            return await self._metadata(node, key)
        place = _PLACES.get(key)
        if place is None or node.remote_id is None:
            return item_fields.of_json(self._item(node)).get(key) if place is not None else None
        if place not in KEPT and self._item_details is not None:
            await self._item_details.learn(node, DetailSubject.ITEM)
        return item_fields.of_json(self._item(node)).get(key)

    def _named_by_others(self, node: Node, name: str) -> str | bytes | None:
        """Return an attribute without our prefix: of the item if it maps to a field, or a local one."""
        if description_tags.meaning(node, name) is not None and (
            text := description_tags.shown(name, self._item(node))
        ):
            return text
        return user_xattrs.find(self._db, node.ino, name)

    def _local(self, node: Node, key: str) -> str | None:
        if key == SYNC:
            return sync_status.sync(self._db, node)
        if key == PINNED:
            return "1" if pins.holder(self._db, node.ino) is not None else "0"
        cached = sync_status.cached(self._blocks, node)
        return None if cached is None else str(cached)

    async def _policy(self, node: Node, key: str) -> str | None:
        if node.remote_id is None or node.kind in (NodeKind.LINK, NodeKind.SYMLINK):
            return None
        if self._item_details is not None:
            await self._item_details.learn_policies()
            if node.kind is NodeKind.FILE and policies.depends_on_metadata(self._db):
                await self._item_details.learn(node, DetailSubject.METADATA)
        return policies.value(self._db, node, key)

    async def _metadata(self, node: Node, key: str) -> str | None:
        place = metadata_values.place(key)
        wished = item_details.described(self._db, node.ino).metadata
        if place is not None and (given := wished.get(metadata_values.key(place))) is not None:
            return given
        if node.remote_id is None:
            return None
        if self._item_details is not None:
            await self._item_details.learn(node, DetailSubject.METADATA)
        found = self._instances(node)
        if key == metadata_values.WORD:
            return metadata_values.summary(found) or None
        one = metadata_values.find(found, place) if place is not None else None
        value = one.values.get(place.field) if one is not None and place is not None else None
        return None if value is None else metadata_values.text(value)

    def _instances(self, node: Node) -> list[metadata.Instance]:
        fact = item_details.find(self._db, node.ino, DetailSubject.METADATA)
        return [] if fact is None else [metadata.Instance.model_validate(one) for one in fact.value]

    def _item(self, node: Node) -> dict[str, Any]:
        """Return the item in its wire format, as far as it is known locally."""
        asked = item_details.find(self._db, node.ino, DetailSubject.ITEM)
        found = {} if asked is None else {k: v for k, v in asked.value.items() if k not in KEPT}
        found |= json.loads(tree.item_json(self._db, node.ino) or "{}")
        columns: dict[str, Any] = {"type": node.kind.value, "size": node.size}
        if node.draft is None:
            columns["sha1"] = node.sha1
        if node.remote_id is not None:
            columns |= {"id": node.remote_id, "etag": node.etag, "item_status": "active"}
            columns |= {"sequence_id": node.sequence, "file_version": {"id": node.version}}
            columns |= {"name": node.base_name, "parent": {"id": node.base_parent}}
        return description_tags.overlaid(found | columns, item_details.described(self._db, node.ino))

    # ---- listing -------------------------------------------------------------------------------

    def names(self, node: Node) -> list[str]:
        """Return the names of the listed and of programs' own attributes, without a request."""
        mine = user_xattrs.names(self._db, node.ino)
        if node.kind is NodeKind.SYMLINK or node.local:
            return mine
        item = self._item(node)
        known = item_fields.of_json(item)
        protected = policies.shown(self._db, node, item)
        found = [PREFIX + name for name in LISTED if name in protected or known.get(name, "0") != "0"]
        values = set(metadata_values.values(self._instances(node)))
        wished = {
            f"{metadata_values.WORD}.{key}" for key in item_details.described(self._db, node.ino).metadata
        }
        found += [PREFIX + name for name in sorted(values | wished)]
        for name in (description_tags.XDG_COMMENT, description_tags.XDG_TAGS):
            if (
                name not in mine
                and description_tags.meaning(node, name) is not None
                and description_tags.shown(name, item)
            ):
                found.append(name)
        if node.kind is NodeKind.LINK and link_url.XDG not in mine:
            found.append(link_url.XDG)
        return found + mine

    # ---- setting -------------------------------------------------------------------------------

    async def set(self, node: Node, name: str, value: bytes) -> list[Change]:
        """Set an attribute of the item, if it is writable, or a program's own; return the changes to publish,
        because the kernel does not expect this to change a file's contents."""
        if name == link_url.XDG and node.kind is NodeKind.LINK:
            changed = await self._link_urls.set(node, value)
            if changed is not None:
                return [Change(ChangeKind.CONTENT, node.ino)] if changed else []
        await self._set(node, name, value)
        return []

    async def _set(self, node: Node, name: str, value: bytes) -> None:
        if name == PREFIX + PINNED and self._pins is not None:
            await self._pins(node.ino, pinned=sync_status.parse_bool(value))
            return
        if name == PREFIX + FAVORITE and self._favorites is not None:
            await self._favorites.set(node, is_one=sync_status.parse_bool(value))
            return
        if (word := description_tags.meaning(node, name)) is not None:
            await self._describe(node, description_tags.parsed(word, value))
            return
        if name.startswith(PREFIX):
            place = metadata_values.place(name.removeprefix(PREFIX))
            if place is not None and self._item_details is not None and not node.local:
                await self._set_metadata(self._item_details, node, place, _text(value))
            else:
                _ignore(name)
            return
        user_xattrs.check(name, value)
        await self._change(lambda conn: user_xattrs.store(conn, node.ino, name, value))

    async def remove(self, node: Node, name: str) -> None:
        """Remove an attribute.  Raises `OSError`: ENODATA if the node has no such attribute."""
        if name == PREFIX + PINNED and self._pins is not None:
            await self._pins(node.ino, pinned=False)
            return
        if name == PREFIX + FAVORITE and self._favorites is not None:
            await self._favorites.set(node, is_one=False)
            return
        if (word := description_tags.meaning(node, name)) is not None:
            if self._item(node).get(word):
                await self._describe(node, description_tags.nothing(word))
                return
            if name.startswith(PREFIX):
                raise errno_map.oserror(errno.ENODATA, name)
        if name.startswith(PREFIX):
            place = metadata_values.place(name.removeprefix(PREFIX))
            if place is not None and self._item_details is not None and not node.local:
                await self._set_metadata(self._item_details, node, place, None)
            else:
                _ignore(name)
            return
        if (
            name == link_url.XDG
            and node.kind is NodeKind.LINK
            and user_xattrs.find(self._db, node.ino, name) is None
        ):
            return  # a web link always has an address; it is listed, so this is silently ignored
        await self._change(lambda conn: user_xattrs.remove(conn, node.ino, name))

    async def _set_metadata(
        self, asked: ItemDetailsPort, node: Node, place: metadata_values.ValuePlace, text: str | None
    ) -> None:
        self._limits.check_metadata(node)
        key = metadata_values.key(place)
        is_wished = key in item_details.described(self._db, node.ino).metadata
        if node.remote_id is not None:
            await asked.set_metadata(node, place, text)
        elif node.kind not in (NodeKind.FILE, NodeKind.FOLDER):
            raise errno_map.oserror(errno.ENOTSUP, node.name)
        elif text is not None:
            # Sent once the item is uploaded, which may take long or wait for the network.
            await asked.judge_metadata(place, text)
            await self._change(
                lambda conn: description_tags.wish(conn, node.ino, key, text, due_ns=self._due())
            )
            return
        elif not is_wished:
            raise errno_map.oserror(errno.ENODATA, key)
        if is_wished:
            await self._change(lambda conn: item_details.cancel_value(conn, node.ino, key))

    async def _describe(self, node: Node, wish: item_details.Described) -> None:
        self._limits.check_description(node)
        # At the service, changing the name, description and tags need the same permission.
        await self._allowed(node, NodeRight.RENAME)
        await self._change(lambda conn: description_tags.record(conn, node.ino, wish, due_ns=self._due()))


def _ignore(name: str) -> None:
    """Ignore setting or removing a listed attribute; raise ENOTSUP for all others."""
    if name.removeprefix(PREFIX) not in (*LISTED, SYNC):
        raise errno_map.oserror(errno.ENOTSUP, name)


def _text(value: bytes) -> str:
    try:
        return value.rstrip(b"\0").decode("utf-8")
    except UnicodeDecodeError:
        raise errno_map.oserror(errno.EINVAL, "not UTF-8") from None
