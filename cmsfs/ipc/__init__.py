"""Messages between the command line and the daemon over the control socket, and to the desktop."""
