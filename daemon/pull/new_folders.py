"""Lists the contents of folders that arrived by an event, which does not include them.

A folder that was moved here, restored or shared with us brings content that nobody changed.

Rule: listing is asked for after the folder's own row is committed, and never waited for.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cmsfs.models.content import entries, items
from cmsfs.replica import tree
from cmsfs.replica.nodes import NodeKind
from cmsfs.sqlite import Database
from daemon.fetch.hydrate import Hydrator


@dataclass(frozen=True, slots=True)
class NewFolders:
    """Lists the contents of folders that are new here."""

    db: Database
    hydrator: Hydrator

    def new_folders(self, found: Iterable[items.Item | entries.Entry]) -> list[str]:
        """The folders among these whose content is not known: to be asked before they are applied."""
        return [item.id for item in found if item.type == "folder" and self._is_new(item.id)]

    def list_soon(self, folder_ids: Iterable[str]) -> None:
        """Have them listed, each with what is below it."""
        for folder_id in folder_ids:
            node = tree.find_remote(self.db, NodeKind.FOLDER, folder_id)
            above = node.parent if node is not None else None
            # One that came with a new folder above it is listed with that.
            if node is not None and above is not None and tree.is_listed(self.db, above):
                self.hydrator.list_soon(node.ino)

    def _is_new(self, folder_id: str) -> bool:
        node = tree.find_remote(self.db, NodeKind.FOLDER, folder_id)
        return node is None or node.etag is None or node.parent is None
