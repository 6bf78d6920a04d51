"""The account's tree as a file system, one module per capability."""
