"""What is recognized in the calls of programs: saves, copies, lock files, local-only files."""
