"""The control socket: commands, and what they report."""
