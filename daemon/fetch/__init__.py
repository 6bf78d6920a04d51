"""Downloads: blocks, prefetch, pinned folders, and what is evicted to free space."""
