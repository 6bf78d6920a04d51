"""Push: the journal, carried out at the service."""
