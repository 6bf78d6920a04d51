"""Each user's own lists: favorites, and recent items."""
