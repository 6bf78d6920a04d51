"""Resolves a path on the service, such as /Documents/a.txt, to an item.

One request for each folder on the path: a listing if the service can list folders, otherwise a search for the
name below the folder; the profile says which.

At the service, items shared by others are listed beside one's own, under names that others choose.  Here they
are below `Shared with me`, as on the drive; without that prefix, one's own item takes precedence.

Rule: an exact name wins over one that differs in case only, as on the service itself.
"""

import posixpath
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from cmsfs import config, errors
from cmsfs.client import session
from cmsfs.client.content import search
from cmsfs.config import local_patterns
from cmsfs.models import wire_names
from cmsfs.models.content import items
from cmsfs.models.content import search as models_search

ROOT_ID = "0"
FIELDS = ["name", "parent", "size", "sha1", "etag", "modified_at", "url", "owned_by"]

# The suffix that the drive adds to a name that is taken.
_ID_SUFFIX = re.compile(r"(?P<stem>.*) \(id (?P<number>[^)]+)\)(?P<suffix>(\.[^.]*)?)", re.DOTALL)

Found = items.File | items.Folder | items.WebLink


class RemotePaths:
    """Resolves paths, as one client may see them."""

    def __init__(self, client: session.Client, settings: config.Settings) -> None:
        self._client = client
        profile = config.profile(settings)
        self._me: str | None = None
        self._folders_list = profile.embedded or profile.lister == "folder_items"

    async def get(self, path: str) -> Found:
        """Return the item at a path.  Raises `UserError` if there is none."""
        if found := await self.find(path):
            return found
        raise errors.UserError(f"There is no {normal(path)} on the service.")

    async def get_folder(self, path: str) -> items.Folder:
        """Return the folder at a path.  Raises `UserError` if there is none, or if it is not a folder."""
        found = await self.get(path)
        if not isinstance(found, items.Folder):
            raise errors.UserError(f"{normal(path)} is not a folder.")
        return found

    async def find(self, path: str) -> Found | None:
        """Return the item at a path, or None."""
        found: Found = items.Folder(id=ROOT_ID, name="")
        parts = [part for part in normal(path).split("/") if part]
        if parts:
            top = await self._top(parts[0])
            if top is None and parts[0] == local_patterns.SHARED and len(parts) > 1:
                parts = parts[1:]
                top = await self._shared(parts[0])
            if (top := top or await self._shared(parts[0])) is None:
                return None
            found = top
        for part in parts[1:]:
            child = await self._child(found, part) if isinstance(found, items.Folder) else None
            if child is None:
                return None
            found = child
        return found

    async def _top(self, name: str) -> Found | None:
        """Return the item with this name in the root, one's own first; None if only several shared items
        match."""
        alike = await self._in_root(name)
        if len(alike) > 1:
            alike = [item for item in alike if await self._is_own(item)]
        exact = [item for item in alike if item.name == name]
        return next(iter(exact or alike), None)

    async def _shared(self, name: str) -> Found | None:
        """Return the item that others share under this name; of several, the one that has it on the drive."""
        if (match := _ID_SUFFIX.fullmatch(name)) is not None:
            plain, number = match["stem"] + match["suffix"], match["number"]
            for item in await self._in_root(plain):
                if item.id == number:
                    return item
        found = [item for item in await self._in_root(name) if not await self._is_own(item)]
        return min(found, key=_rank, default=None)

    async def _in_root(self, name: str) -> list[Found]:
        """Return the items in the root with this name, ignoring case: shared items may differ only in
        case."""
        key = wire_names.name_key(name)
        async with aclosing(self._children(items.Folder(id=ROOT_ID, name=""), name)) as children:
            return [item async for item in children if item.name and wire_names.name_key(item.name) == key]

    async def _is_own(self, item: Found) -> bool:
        if item.owned_by is None:
            return True
        if self._me is None:
            self._me = (await self._client.users.me()).id
        return item.owned_by.id == self._me

    async def _child(self, folder: items.Folder, name: str) -> Found | None:
        key = wire_names.name_key(name)
        alike = None
        async with aclosing(self._children(folder, name)) as children:
            async for item in children:
                if item.name == name:
                    return item
                if item.name and wire_names.name_key(item.name) == key:
                    alike = item
        return alike

    async def children(self, folder: items.Folder) -> AsyncGenerator[Found, None]:
        """Yield a folder's direct children, each item once."""
        seen: set[str] = set()
        async for item in self._children(folder):
            if item.id not in seen:
                seen.add(item.id)
                yield item

    async def _children(self, folder: items.Folder, name: str | None = None) -> AsyncGenerator[Found, None]:
        """Yield children of a folder, at least those with this name."""
        if self._folders_list:
            async for item in self._client.folders.items(folder.id):
                yield item
            return
        # A phrase search finds nearly every name; a name without a word in it needs a search for everything.
        phrases = [] if name is None else ['"' + name.replace('"', " ") + '"']
        for text in (*phrases, search.EVERYTHING):
            query = models_search.Query(
                query=text, ancestor_folder_ids=[folder.id], fields=FIELDS, limit=models_search.MAX_LIMIT
            )
            async for item in self._client.search.entries(query):
                if item.parent and item.parent.id == folder.id:
                    yield item


def _rank(item: Found) -> tuple[int, str]:
    return (int(item.id) if item.id.isdecimal() else 0, item.id)


def normal(path: str) -> str:
    """Return the normalized absolute form of a remote path."""
    return posixpath.normpath("/" + path.lstrip("/"))


def path_of(item: Found) -> str:
    """Return the item's path at the service, from its `path_collection`."""
    above = item.path_collection.entries if item.path_collection else []
    return "/" + "/".join([*(folder.name or "" for folder in above[1:]), item.name or ""])


def as_json(item: Found) -> dict[str, object]:
    """Return the item for JSON output, with its path if that is known."""
    answer: dict[str, object] = item.model_dump(mode="json", exclude_unset=True)
    if item.path_collection:
        answer["path"] = path_of(item)
    return answer
