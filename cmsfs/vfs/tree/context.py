"""The objects that the parts of the tree's file system share; `Filesystem` creates one context."""

from collections.abc import Callable
from dataclasses import dataclass

from cmsfs.cache.blocks import BlockCache
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.replica.changes import Change
from cmsfs.replica.current_folder import CurrentFolder
from cmsfs.replica.inodes import Inodes
from cmsfs.sqlite import Database
from cmsfs.vfs.ports import HydratorPort, Wakeable
from cmsfs.vfs.tree.limits import Quota, ServiceLimits
from cmsfs.vfs.tree.naming import ExcludedFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeContext:
    """The local state, the ports, and settings."""

    db: Database
    folder: CurrentFolder
    blocks: BlockCache
    drafts: Drafts
    group_commit: GroupCommit
    hydrator: HydratorPort
    push: Wakeable
    inodes: Inodes
    quota: Quota
    limits: ServiceLimits
    excluded: ExcludedFolders
    settle_seconds: float
    publish: Callable[[list[Change]], None]
