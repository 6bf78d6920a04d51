"""The semantics of the file system, without kernel and without network."""
