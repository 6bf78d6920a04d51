"""Files and folders as one ZIP archive, made while it is downloaded."""
