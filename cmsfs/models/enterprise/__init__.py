"""Users, tokens and policies on the wire."""
