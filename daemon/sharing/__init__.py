"""Shared items: shown, offered, regained, wiped."""
