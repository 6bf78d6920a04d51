"""Remote items that this machine cannot store: skipped and reported, the rest continues.

A size or a number beyond 64 bits, a name that is no text, a form that is not understood: one such item must
not keep the news of all others away (`Remote.problem`).

Rule: what is here of such an item stays as it is, and is not taken for gone.
"""

import logging
from collections import OrderedDict

from cmsfs.replica.nodes import NodeKind

log = logging.getLogger(__name__)

REMEMBERED = 1000

# Errors of a transaction for which one item can be to blame, and neither the disk nor the network.
BLAMED = (ArithmeticError, LookupError, TypeError, ValueError)


class UnstorableItems:
    """Remembers which items were skipped, and why."""

    def __init__(self) -> None:
        # By kind and id, why.
        self.known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def note(self, kind: NodeKind | str, item_id: str, reason: str) -> None:
        """An item is set aside.  Told once, until it is another reason."""
        key = (str(kind), item_id[:100])
        if self.known.get(key) != reason:
            log.warning("skipping the %s %s of the service: %s", key[0], ascii(key[1]), reason)
        self.known[key] = reason
        while len(self.known) > REMEMBERED:
            self.known.popitem(last=False)

    def lines(self) -> list[str]:
        """A line for each."""
        return [f"{kind} {ascii(item_id)[1:-1]}: {reason}" for (kind, item_id), reason in self.known.items()]
