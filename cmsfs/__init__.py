"""cmsfs: a drive and sync agent for a cloud content-management service."""

__version__ = "0.1.0"
