"""The administrators' pages: what the enterprise has, and what it needs set up, without any program."""
