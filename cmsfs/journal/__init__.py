"""Durable write-back: drafts, operations, recovery."""
