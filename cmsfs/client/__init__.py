"""The calling side of the wire, one class a capability."""
