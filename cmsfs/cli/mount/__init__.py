"""Mounting: launching the daemon, systemd units, mount(8)."""
