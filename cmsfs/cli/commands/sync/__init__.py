"""Commands of synchronization."""
