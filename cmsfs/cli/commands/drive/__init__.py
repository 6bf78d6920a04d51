"""Commands of the drive."""
