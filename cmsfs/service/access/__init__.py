"""Who may do what: callers, scopes, roles, locks, shared links, protection."""
