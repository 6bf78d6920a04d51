"""Extended attributes: what can be told of an item beyond `stat`, one noun a file."""
