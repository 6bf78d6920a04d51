"""Remote items that this machine cannot store: skipped and reported, the rest continues.

A size or number beyond 64 bits, an undecodable name, an unknown format: one such item must not block the
changes of all others (`Remote.problem`).

Rule: the local state of such an item is kept, and the item does not count as deleted.
"""

import logging
from collections import OrderedDict

from cmsfs.replica.nodes import NodeKind

log = logging.getLogger(__name__)

REMEMBERED = 1000

# Errors of a transaction that one item may cause, as opposed to the disk or the network.
BLAMED = (ArithmeticError, LookupError, TypeError, ValueError)


class UnstorableItems:
    """Remembers which items were skipped, and why."""

    def __init__(self) -> None:
        # The reason, by kind and ID.
        self.known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def note(self, kind: NodeKind | str, item_id: str, reason: str) -> None:
        """Record a skipped item; logs it once per reason."""
        key = (str(kind), item_id[:100])
        if self.known.get(key) != reason:
            log.warning("skipping the %s %s of the service: %s", key[0], ascii(key[1]), reason)
        self.known[key] = reason
        while len(self.known) > REMEMBERED:
            self.known.popitem(last=False)

    def lines(self) -> list[str]:
        """Return a line for each item."""
        return [f"{kind} {ascii(item_id)[1:-1]}: {reason}" for (kind, item_id), reason in self.known.items()]
