"""Login, token storage and the bearer header."""
