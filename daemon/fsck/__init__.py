"""`cmsfs fsck`: checks and repairs the local state of an unmounted drive."""
