"""The local copy of the tree."""
