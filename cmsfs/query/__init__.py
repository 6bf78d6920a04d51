"""The search language: parser for what a person types."""
