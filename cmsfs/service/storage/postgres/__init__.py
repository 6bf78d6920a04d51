"""The PostgreSQL database engine; imported only if a database URL is configured."""
