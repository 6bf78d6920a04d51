"""A folder's past: reconstructs it from versions, trash and events, plans a restore and carries it out."""
