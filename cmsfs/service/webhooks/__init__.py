"""Webhooks: URLs of applications that are notified of events."""
