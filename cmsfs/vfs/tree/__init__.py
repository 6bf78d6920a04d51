"""The tree of the account as a file system: one capability a module."""
