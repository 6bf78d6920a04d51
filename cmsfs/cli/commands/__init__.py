"""The commands, in the groups that `--help` shows."""
