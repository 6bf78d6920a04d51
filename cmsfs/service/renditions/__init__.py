"""What is derived from files: text, thumbnails, previews."""
