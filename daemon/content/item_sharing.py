"""Shared links of items, and their collaborators.

Rule: changing an existing link affects only the given settings; a new link never grants more than the
service's default.
"""

from datetime import datetime

from cmsfs import errors
from cmsfs.client import people
from cmsfs.client.content.items import ItemKind
from cmsfs.client.enterprise.collaborations import Kind
from cmsfs.client.session import Client
from cmsfs.models.content import items
from cmsfs.models.enterprise import collaborations
from cmsfs.replica.nodes import ROOT, Node, NodeKind
from daemon.core.health import Health

_KINDS: dict[NodeKind, ItemKind] = {
    NodeKind.FILE: "file",
    NodeKind.FOLDER: "folder",
    NodeKind.LINK: "web_link",
}


class ItemSharing:
    """The shared link and the collaborators of items, as the service has them."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health

    async def link(self, node: Node) -> items.SharedLink | None:
        """Return the link of an item, if it has one.  Raises `RemoteError`, `UserError` if it is not
        uploaded."""
        with self._health.request("share"):
            return await self._client.shared_links.get(*_key(node))

    async def share(self, node: Node, terms: items.NewSharedLink | None) -> items.SharedLink:
        """Create a link, or change its settings.  Raises the same errors as `link`."""
        key = self._for_change(node)
        with self._health.request("share"):
            return await self._client.shared_links.share(*key, terms)

    async def unshare(self, node: Node) -> None:
        """Remove the link."""
        key = self._for_change(node)
        with self._health.request("share"):
            await self._client.shared_links.unshare(*key)

    async def people(self, node: Node) -> list[collaborations.Collaboration]:
        """Return the collaborations of a file or folder, including invitations but not the owner."""
        with self._health.request("people"):
            return [one async for one in self._client.collaborations.of(*_shareable(node))]

    async def invite(
        self, node: Node, person: str, role: collaborations.Role, ends: datetime | None
    ) -> collaborations.Collaboration:
        """Share an item with a user, given by login address or ID."""
        self._for_change(node)
        with self._health.request("people"):
            (done,) = await people.invite(self._client, *_shareable(node), [person], role, ends)
            return done

    async def end(self, node: Node, collaboration_id: str) -> collaborations.Collaboration:
        """End a collaboration on this item.  Raises `UserError` if it has no such one of its own."""
        self._for_change(node)
        for one in await self.people(node):
            if one.id == collaboration_id and people.is_direct(one, node.remote_id or ""):
                with self._health.request("people"):
                    await self._client.collaborations.delete(one.id)
                return one
        raise errors.UserError("This person does not collaborate on it any more.")

    def _for_change(self, node: Node) -> tuple[ItemKind, str]:
        if self._health.is_read_only:
            raise errors.UserError("This drive is read-only.")
        return _key(node)


def _key(node: Node) -> tuple[ItemKind, str]:
    if node.ino == ROOT:
        raise errors.UserError("The whole drive cannot be shared; share a file or folder of it.")
    if node.remote_id is None:
        raise errors.UserError(f"{node.name} is not uploaded yet, and can be shared when it is.")
    return _KINDS[node.kind], node.remote_id


def _shareable(node: Node) -> tuple[Kind, str]:
    _, item_id = _key(node)
    if node.kind is NodeKind.LINK:
        raise errors.UserError(f"{node.name} is a web link; files and folders have people.")
    return ("file" if node.kind is NodeKind.FILE else "folder"), item_id
