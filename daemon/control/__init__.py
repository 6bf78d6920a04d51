"""The control socket: commands and status."""
