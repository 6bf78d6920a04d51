"""Patterns in the system calls of programs: saves, copies, lock files, local-only files."""
