"""The account: connection, permissions, file locks, lost access."""
