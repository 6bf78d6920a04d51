"""What the processes that serve one store have together."""
