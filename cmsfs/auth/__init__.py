"""Login, token keeping and the bearer header."""
