"""Endpoints of items and their content."""
