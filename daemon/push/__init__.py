"""Push: sends the journal's operations to the service."""
