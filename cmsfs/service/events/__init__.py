"""Events: of a user, and of the enterprise."""
