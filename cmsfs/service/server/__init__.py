"""The HTTP server around the service: the ASGI app, TLS, limits, logs, the OpenAPI description."""
