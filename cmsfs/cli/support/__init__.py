"""What commands share: options, output, progress, paths, the control socket."""
