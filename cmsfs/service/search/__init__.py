"""Search: from the query to SQL and cached results."""
