"""The findings of a check, and the paths that it reads.

Rule: a check without `repair` changes nothing; a repair moves bytes that only this disk has, and deletes
nothing but what the service has too.
"""

from dataclasses import dataclass, field
from pathlib import Path

from cmsfs import config


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    `remedy` is what the repair does about it.  `lost`: bytes that were never sent are gone or damaged.
    """

    area: str  # database, tree, journal, drafts, cache
    text: str
    remedy: str
    lost: bool = False


@dataclass(slots=True)
class Report:
    """All findings of a run, in the order in which they were made."""

    repair: bool
    findings: list[Finding] = field(default_factory=list)

    def add(self, area: str, text: str, remedy: str, *, lost: bool = False) -> None:
        self.findings.append(Finding(area, text, remedy, lost))


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Where the state is."""

    database: Path
    drafts: Path
    recovered: Path
    blocks: Path

    @classmethod
    def of(cls, paths: config.Paths) -> "StatePaths":
        return cls(paths.replica_db, paths.drafts, paths.recovered, paths.blocks)

    def aside(self, path: Path, name: str) -> Path:
        """Move a file to what was recovered, under a name that is free; where it is now."""
        self.recovered.mkdir(parents=True, exist_ok=True, mode=0o700)
        target, number = self.recovered / name, 1
        while target.exists():
            number += 1
            target = self.recovered / f"{name}.{number}"
        path.rename(target)
        return target
