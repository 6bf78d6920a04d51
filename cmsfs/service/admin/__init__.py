"""The administrators' web pages: setup and overview of the enterprise."""
