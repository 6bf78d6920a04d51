"""The kernel protocol, and nothing else."""
