"""What both sides of a wire share: pydantic shapes, and the small pure functions that go with them, as what
makes a valid name.  Nothing here reads, writes or asks anybody.
"""
