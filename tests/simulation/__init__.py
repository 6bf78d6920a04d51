"""A deterministic simulation: whole drives and their service in one process, by virtual time and one seed."""
