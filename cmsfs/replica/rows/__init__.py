"""Tables that several layers change, each with one owner module, the only one that writes to it."""
