"""Uploads: in one request, and in parts."""
