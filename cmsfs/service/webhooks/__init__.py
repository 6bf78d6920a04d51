"""Webhooks: addresses of applications that are told what happens."""
