"""Renditions derived from files: text, thumbnails, previews."""
