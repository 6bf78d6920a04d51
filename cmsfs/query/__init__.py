"""The search language: what a person types, parsed."""
