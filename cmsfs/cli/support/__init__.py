"""Shared code of the commands: options, output, progress, paths, the control socket."""
