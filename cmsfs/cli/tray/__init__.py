"""The tray icon: its state, its menu, and its D-Bus interfaces."""
