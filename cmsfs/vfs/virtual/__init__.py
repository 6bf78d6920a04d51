"""Virtual folders: the trash, searches, versions."""
