"""What a client knows to be in a folder, as one number, so that a folder goes only with what was seen.

`DELETE /folders/:id?recursive=known` carries the number in `HEADER`.  The service counts for itself, in the
transaction of the deletion, and refuses with 412 where it comes to another: something is in the folder that
the client has not heard of.  A service that knows nothing of this takes the request for one that is not
recursive, and refuses that for a folder that is not empty.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

RECURSIVE: Final = "known"
HEADER: Final = "x-known-tree"


def digest(items: Iterable[tuple[str, str, str | None]]) -> str:
    """Of all items below a folder, given by their type, id and etag in any order."""
    lines = sorted(f"{kind} {item_id} {etag}\n" for kind, item_id, etag in items)
    return hashlib.sha1("".join(lines).encode(), usedforsecurity=False).hexdigest()
