"""Lists the contents of folders that arrived by an event, which does not include them.

A folder that was moved here, restored or shared with us has contents for which there are no events.  Others
are listed again if they may have become incomplete.

Rule: the listing starts after the folder's row is committed, and nobody waits for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cmsfs.models.content import entries, items
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, NodeKind
from cmsfs.sqlite import Database
from daemon.fetch.hydrate import Hydrator


@dataclass(frozen=True, slots=True)
class NewFolders:
    """Lists the contents of new folders."""

    db: Database
    hydrator: Hydrator

    def new_folders(self, found: Iterable[items.Item | entries.Entry]) -> list[str]:
        """Return the folders among these whose content is unknown; call it before they are applied."""
        return [item.id for item in found if item.type == "folder" and self._is_new(item.id)]

    def list_soon(self, folder_ids: Iterable[str]) -> None:
        """Start listing them, each with everything below it."""
        for folder_id in folder_ids:
            node = tree.find_remote(self.db, NodeKind.FOLDER, folder_id)
            above = node.parent if node is not None else None
            # A folder inside another new folder is listed with that one.
            if node is not None and above is not None and tree.is_listed(self.db, above):
                self.hydrator.list_soon(node.ino)

    def list_again(self, folders: Iterable[Ino]) -> None:
        """Start listing folders that may have become incomplete."""
        for ino in folders:
            self.hydrator.list_soon(ino)

    def _is_new(self, folder_id: str) -> bool:
        node = tree.find_remote(self.db, NodeKind.FOLDER, folder_id)
        return node is None or node.etag is None or node.parent is None
