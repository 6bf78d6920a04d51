"""Lists what shared links in the drive's `.url` files show.

Only links of the drive's own service are requested, never other addresses.  A link with a password is not
opened here, since there is nobody to ask for it; `cmsfs mount LINK` does.

Rule: requests use the drive's own account, so a link restricted to an enterprise or some users shows what
this user may see.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from sqlite3 import Connection
from urllib.parse import urlsplit

from cmsfs import config, errors
from cmsfs.client.session import Client
from cmsfs.replica.nodes import NodeKind, Remote, remote_from_item
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from daemon.core.health import Health

# Cache time of a folder's contents, and so their maximum age when a program opens it.
FRESH_SECONDS = 30.0
OPENED_SECONDS = 2.0
REMEMBERED = 500

_LINKS = """
  SELECT name, item FROM node INDEXED BY node_remote
  WHERE kind = 'web_link' AND remote_id IS NOT NULL AND parent IS NOT NULL
  ORDER BY length(remote_id), remote_id
"""
_PATH = re.compile(r"/s/[A-Za-z0-9_-]{1,200}/?", re.ASCII)


class LinkedFolders:
    """Implements `LinkedFoldersPort` of the vfs."""

    def __init__(self, settings: config.Settings, db: Database, client: Client, health: Health) -> None:
        addresses = (*client.endpoints.addresses, config.profile(settings).item_page or "")
        self._hosts = {urlsplit(one).netloc for one in addresses} - {""}
        self._db = db
        self._client = client
        self._health = health
        self._heard: OrderedDict[tuple[str, str | None], tuple[float, list[Remote]]] = OrderedDict()

    async def links(self) -> list[tuple[str, str]]:
        """Return the shared links of this service in `.url` files: a unique name for each, and the
        address."""
        found = await self._db.query(self._links)
        taken: set[str] = set()
        lines = []
        for name, url in found:
            stem = chosen = name.removesuffix(".url")
            count = 1
            while chosen in taken:
                count += 1
                chosen = f"{stem} ({count})"
            taken.add(chosen)
            lines.append((chosen, url))
        return lines

    def _links(self, conn: Connection) -> list[tuple[str, str]]:
        rows = ((row["name"], json.loads(row["item"] or "{}").get("url")) for row in conn.execute(_LINKS))
        return [(name, url) for name, url in rows if isinstance(url, str) and self._is_ours(url)]

    def _is_ours(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        return parts.netloc in self._hosts and _PATH.fullmatch(parts.path) is not None

    async def inside(self, url: str, folder_id: str | None, *, anew: bool) -> Sequence[Remote]:
        """Return the items in the folder of a link, or in one below; for a link to a file, the file.

        Returns cached items while the service is unreachable.  Raises `RemoteError`.
        """
        key, now = (url, folder_id), clock.monotonic()
        before = self._heard.get(key)
        if before is not None and now - before[0] <= (OPENED_SECONDS if anew else FRESH_SECONDS):
            return before[1]
        try:
            found = await self._ask(url, folder_id)
        except (errors.Offline, errors.RemoteTimeout):
            if before is None:
                raise
            return before[1]
        self._heard[key] = now, found
        self._heard.move_to_end(key)
        if len(self._heard) > REMEMBERED:
            self._heard.popitem(last=False)
        return found

    async def _ask(self, url: str, folder_id: str | None) -> list[Remote]:
        if not self._health.can_ask:
            raise errors.Offline("The service cannot be reached.")
        with self._health.request("listing"):
            if folder_id is None:
                shown = remote_from_item(await self._client.shared_links.find(url))
                if shown.kind is not NodeKind.FOLDER:
                    return [shown]
                folder_id = shown.id
            listed = self._client.shared_links.items(url, folder_id)
            return [remote_from_item(item) async for item in listed]

    def will_read(self, url: str, file_id: str) -> None:
        """Note that the contents of this file will be requested, which only the link gives access to."""
        self._client.files.shown_by(url, file_id)
