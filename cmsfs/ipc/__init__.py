"""What command line and daemon say to each other over the control socket."""
