"""A folder as it was: gathered from versions, trash and events, planned, and brought back."""
