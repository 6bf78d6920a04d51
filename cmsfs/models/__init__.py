"""Pydantic models that client and service share, with pure functions such as name validation.  No I/O."""
