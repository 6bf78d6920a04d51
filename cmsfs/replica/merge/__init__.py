"""Remote state merged into the local tree."""
