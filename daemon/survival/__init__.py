"""Keeps the drive mounted while its daemon dies: what the next one needs is written down, and held."""
