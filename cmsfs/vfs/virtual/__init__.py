"""Folders that are no items: the trash, searches, versions."""
