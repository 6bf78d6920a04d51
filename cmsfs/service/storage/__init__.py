"""The store: SQLite, blobs, upload parts, derived files, signed URLs."""
