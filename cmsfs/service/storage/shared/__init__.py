"""State shared by the processes that serve one store."""
