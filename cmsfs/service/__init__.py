"""The embedded service."""
