"""The store: SQLite, blobs, parts of uploads, derived files, signed URLs."""
