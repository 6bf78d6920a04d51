"""Copies a whole store into another one: from the embedded engines to a company's, and back."""
