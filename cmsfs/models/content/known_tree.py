"""A digest of the items that a client knows below a folder, so that deleting the folder deletes only those.

`DELETE /folders/:id?recursive=known` has the digest in `HEADER`.  The service computes its own in the
transaction of the deletion and rejects the request with 412 if they differ: the folder has items that the
client does not know.  A service without this extension treats the request as not recursive, and rejects it
for a folder that is not empty.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

RECURSIVE: Final = "known"
HEADER: Final = "x-known-tree"


def digest(items: Iterable[tuple[str, str, str | None]]) -> str:
    """Return the digest of all items below a folder, given as type, id and etag, in any order."""
    lines = sorted(f"{kind} {item_id} {etag}\n" for kind, item_id, etag in items)
    return hashlib.sha1("".join(lines).encode(), usedforsecurity=False).hexdigest()
