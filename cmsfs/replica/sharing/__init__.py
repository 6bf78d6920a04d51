"""Shared items in the local tree."""
