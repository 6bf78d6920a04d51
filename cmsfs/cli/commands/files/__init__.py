"""Commands on files and folders."""
