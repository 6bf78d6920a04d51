"""`cmsfs fsck`: looking at the local state of a drive that is not mounted, and repairing it."""
