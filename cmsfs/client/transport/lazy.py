"""`httpx`, imported with the first request.

A starting drive answers programs from its replica before it has a connection, and importing the library takes
a tenth of such a start.  The modules of this package import `httpx` from here and use its types in
annotations only; modules that inherit from its classes are imported later (`throttled_body`, `embedded`,
`connections`).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx as httpx
else:

    class _LazyHttpx:
        """The module, imported on first access to an attribute."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(importlib.import_module("httpx"), name)
            setattr(self, name, found)
            return found

    httpx = _LazyHttpx()
