"""The icon in the desktop's panel: what it shows, its menu, and the bus that it is on."""
