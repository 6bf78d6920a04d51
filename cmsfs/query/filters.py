"""The keys of a search's filters, and how a value is quoted for one."""

KEYS = ("type", "ext", "in", "owner", "size", "modified", "created", "content", "metadata")


def quoted(value: str) -> str:
    """A filter's value that is taken as it is, blanks and quotes and all."""
    return '"' + value.replace('"', '""') + '"'
