"""Commands of the embedded service."""
