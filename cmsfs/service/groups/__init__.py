"""Groups: users who are invited together."""
