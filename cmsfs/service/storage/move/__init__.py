"""Copies a whole store into another one, for example from SQLite and a folder to PostgreSQL and a bucket."""
