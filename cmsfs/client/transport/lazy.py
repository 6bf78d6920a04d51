"""`httpx`, loaded when the first request is made.

A drive that starts answers programs from its replica before it has a connection, and the library takes a
tenth of such a start.  The modules of this package take `httpx` from here, name its types in annotations
only, and inherit from them where a request is on its way (`throttled_body`, `embedded`, `connections`).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx as httpx
else:

    class _LazyHttpx:
        """The module, loaded with the first look at a name of it."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(importlib.import_module("httpx"), name)
            setattr(self, name, found)
            return found

    httpx = _LazyHttpx()
