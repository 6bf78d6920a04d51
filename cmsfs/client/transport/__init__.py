"""HTTP: connections, retries, rate limits, bodies, multipart."""
