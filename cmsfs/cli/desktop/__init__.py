"""Desktop integration of the command line: file manager menus, the clipboard, opening files and URLs."""
