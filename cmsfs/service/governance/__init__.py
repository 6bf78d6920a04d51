"""Legal holds and retention policies."""
