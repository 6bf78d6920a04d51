"""The meaning of the drive, without kernel and without network."""
