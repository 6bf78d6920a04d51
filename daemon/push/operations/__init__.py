"""One module for each kind of change that is sent."""
