"""The HTTP client, one class per capability."""
