"""Puts what `packaging/share` made into the wheel and the source distribution, where it was made.

A checkout that is only installed (`pip install .`) has no manual pages yet, and does without.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Shared(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `build/share` of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a target is built."""
        folder = Path(self.root) / "build" / "share"
        if version == "editable" or not folder.is_dir():
            return
        if self.target_name == "wheel":
            for path in folder.rglob("*"):
                if path.is_file():
                    build_data["shared_data"][str(path)] = f"share/{path.relative_to(folder)}"
        elif self.target_name == "sdist":
            build_data["force_include"][str(folder)] = "build/share"
