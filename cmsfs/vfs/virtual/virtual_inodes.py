"""Inode numbers of virtual nodes: allocated, and kept while the kernel or a handle uses them.

Rows of the tree count up from 1, these from far above, so that a number alone says which side answers.
"""

import errno
from collections.abc import Hashable
from dataclasses import dataclass

from cmsfs.replica.inodes import Inodes
from cmsfs.replica.nodes import Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import VirtualFolder, VirtualNode

FIRST: Ino = 1 << 62


@dataclass(slots=True)
class _Known:
    node: VirtualNode
    uses: int = 0
    # What it became when it was moved into the account's tree: the row answers from then on.
    real: Ino | None = None


class VirtualInodes:
    """The virtual nodes that somebody may still ask for, by number and by key.

    `counts`: the kernel's lookups are counted with those of the tree, whose numbers are others.
    """

    def __init__(self, counts: Inodes) -> None:
        self._counts = counts
        self._next = FIRST
        self._known: dict[Ino, _Known] = {}
        self._by_key: dict[Hashable, Ino] = {}

    def use(self, node: VirtualNode) -> Ino:
        """The number of a node, kept until `unused`; from now on this object answers for it."""
        ino = self._by_key.get(node.key)
        if ino is None:
            ino, self._next = self._next, self._next + 1
            self._known[ino] = _Known(node)
            self._by_key[node.key] = ino
        self._known[ino].node = node
        self._known[ino].uses += 1
        return ino

    def unused(self, ino: Ino) -> None:
        """One `use` less."""
        self._known[ino].uses -= 1
        self._consider(ino)

    def looked_up(self, ino: Ino) -> None:
        """The kernel holds a lookup more; only of a number that is in use."""
        self._counts.looked_up(ino)

    def forgotten(self, ino: Ino, count: int) -> None:
        self._counts.forgotten(ino, count)
        if ino in self._known:
            self._consider(ino)

    def node(self, ino: Ino) -> VirtualNode:
        """Raises `OSError` (ESTALE) where nobody may ask for the number."""
        if (known := self._known.get(ino)) is None:
            raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
        return known.node

    def folder(self, ino: Ino) -> VirtualFolder:
        """As `node`; `OSError` (ENOTDIR) for what is no folder."""
        node = self.node(ino)
        if not isinstance(node, VirtualFolder):
            raise errno_map.oserror(errno.ENOTDIR)
        return node

    def became(self, key: Hashable, real: Ino) -> None:
        """What has this key is a row of the tree now, which answers for its number."""
        # Should the like of it appear again, it is another one.
        if (ino := self._by_key.pop(key, None)) is not None:
            self._known[ino].real = real

    def real(self, ino: Ino) -> Ino:
        """The row that answers for a number; the number itself if there is none."""
        if ino < FIRST:
            return ino
        known = self._known.get(ino)
        return ino if known is None or known.real is None else known.real

    def __len__(self) -> int:
        return len(self._known)

    def _consider(self, ino: Ino) -> None:
        known = self._known[ino]
        if not known.uses and not self._counts.lookups(ino):
            del self._known[ino]
            if self._by_key.get(known.node.key) == ino:
                del self._by_key[known.node.key]
