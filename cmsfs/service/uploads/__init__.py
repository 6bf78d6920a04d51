"""Uploads: direct, and in parts."""
