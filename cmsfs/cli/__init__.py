"""The `cmsfs` command: talks to the daemon by socket and to the service by client."""
