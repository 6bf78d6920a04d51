"""Provisions an enterprise from a file, and the demo."""
