"""Web pages for users without the drive: browse, upload, download, share and restore in a browser."""
