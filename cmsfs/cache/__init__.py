"""The block cache of file content."""
