"""OAuth 2: authorization, grants, tokens, browser sessions, passwords."""
