"""Items: files, folders, web links, versions, trash, comments."""
