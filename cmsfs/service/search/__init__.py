"""Search: from the query to SQL and its cached results."""
