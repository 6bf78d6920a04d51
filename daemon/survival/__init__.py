"""Keeps the drive mounted when its daemon crashes."""
