"""Commands of the account and its configuration."""
