"""The replica: the local copy of the account's tree."""
