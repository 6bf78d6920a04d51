"""Bytes in a bucket of an S3-compatible service; imported only where one is asked for."""
