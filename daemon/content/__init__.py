"""Content management on the drive: trash, versions, search, metadata, locks, item details."""
