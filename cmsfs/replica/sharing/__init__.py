"""What others share, as the local tree knows it."""
