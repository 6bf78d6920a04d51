"""The commands, in the groups in which `--help` lists them."""
