"""Downloads: blocks, prefetch, pinned items, eviction."""
