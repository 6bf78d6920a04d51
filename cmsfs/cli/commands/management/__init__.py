"""Commands for administrators of the enterprise."""
