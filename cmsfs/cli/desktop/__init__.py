"""What the command line has the desktop do: menus of file managers, the clipboard, opening things."""
