"""What the drive's page shows, a subject a file."""
