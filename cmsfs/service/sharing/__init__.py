"""Sharing: collaborations, shared items, share pages."""
