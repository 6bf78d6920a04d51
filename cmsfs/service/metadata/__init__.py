"""Metadata: templates, instances, queries."""
