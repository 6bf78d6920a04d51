"""Remote changes: polled or pushed by events, reconciled, applied."""
