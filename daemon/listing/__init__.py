"""Folder listings: by search, by folder listing, and by a full enumeration in the background."""
