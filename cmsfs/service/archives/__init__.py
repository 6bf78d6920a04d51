"""Downloads of several files and folders as one ZIP archive, generated while it is sent."""
