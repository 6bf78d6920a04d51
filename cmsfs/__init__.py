"""cmsfs: a drive and sync agent for a cloud content-management service."""

import sys

__version__ = "0.1.0"

# httpx's own command line, which nobody here runs, would bring rich and pygments into every start.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
