"""Users of the enterprise and their sessions."""
