"""The sandboxed worker process that reads untrusted documents."""
