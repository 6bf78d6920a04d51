"""Serializes items as JSON."""
