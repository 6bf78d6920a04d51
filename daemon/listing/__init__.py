"""How folders become known: by search, by folder listing, and by a full enumeration in the background."""
