"""Items as JSON."""
