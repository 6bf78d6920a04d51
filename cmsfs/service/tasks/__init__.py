"""Tasks on files, and their assignments to users."""
