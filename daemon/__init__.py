"""The sync agent: composition, push, pull, downloads, control."""
