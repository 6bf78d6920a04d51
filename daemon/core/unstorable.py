"""Remote items that this machine cannot store: skipped and reported, the rest continues.

A size or a number beyond 64 bits, a name that is no text, a form that is not understood: one such item must
not keep the news of all others away.

Rule: what is here of such an item stays as it is, and is not taken for gone.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence

from cmsfs.replica.nodes import NodeKind, Remote

log = logging.getLogger(__name__)

# SQLite's integers, and those of the kernel.
MOST = 2**63 - 1

# Far beyond what services allow (255 characters): no name, but an attack on whoever keeps it.
LONGEST_NAME = 4096

REMEMBERED = 1000

# Errors of a transaction for which one item can be to blame, and neither the disk nor the network.
BLAMED = (ArithmeticError, LookupError, TypeError, ValueError)


class UnstorableItems:
    """Remembers which items were skipped, and why."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def sifted(self, remotes: Sequence[Remote]) -> tuple[list[Remote], list[Remote]]:
        """Those that can be held here, and those that cannot."""
        good: list[Remote] = []
        bad: list[Remote] = []
        for one in remotes:
            if (reason := _problem(one)) is None:
                good.append(one)
                if self._known:
                    self._known.pop((one.kind, one.id), None)
            else:
                bad.append(one)
                self.note(one.kind, one.id, reason)
        return good, bad

    def note(self, kind: NodeKind | str, item_id: str, reason: str) -> None:
        """An item is set aside.  Told once, until it is another reason."""
        key = (str(kind), item_id[:100])
        if self._known.get(key) != reason:
            log.warning("skipping the %s %s of the service: %s", key[0], ascii(key[1]), reason)
        self._known[key] = reason
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def lines(self) -> list[str]:
        """A line for each."""
        return [f"{kind} {ascii(item_id)[1:-1]}: {reason}" for (kind, item_id), reason in self._known.items()]


def _problem(one: Remote) -> str | None:
    if not 0 <= one.size <= MOST:
        return f"its size is {_short(one.size)}"
    if not 0 <= one.sequence <= MOST:
        return f"its sequence number is {_short(one.sequence)}"
    if len(one.name) > LONGEST_NAME:
        return f"its name has {len(one.name)} characters"
    texts = (one.id, one.name, one.parent_id, one.etag, one.version, one.sha1)
    together = "".join([text for text in texts if text is not None])
    try:
        together.encode()
    except UnicodeEncodeError:
        return "its name or one of its IDs is not valid text"
    return "its name or one of its IDs is not valid text" if "\0" in together else None


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**30 else f"about 2 to the power of {number.bit_length()}"
