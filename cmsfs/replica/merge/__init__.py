"""Merges remote state into the local tree."""
