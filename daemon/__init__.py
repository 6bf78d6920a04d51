"""The running agent: composition, push, pull, hydrate, control."""
