"""The FUSE protocol, and nothing else."""
