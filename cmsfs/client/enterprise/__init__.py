"""Endpoints of users, tokens and policies."""
