"""Contents in a bucket of an S3-compatible service; imported only if one is configured."""
