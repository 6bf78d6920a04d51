"""Items and their content on the wire."""
