"""What crosses the wire: pydantic shapes, no behaviour."""
