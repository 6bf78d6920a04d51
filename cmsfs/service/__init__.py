"""The serving side of the wire: the embedded service."""
