"""The keys of a search's filters, and how a value is quoted for one."""

KEYS = ("type", "ext", "in", "owner", "size", "modified", "created", "content", "metadata")


def quoted(value: str) -> str:
    """Quote a filter's value, so that spaces and quotes in it are literal."""
    return '"' + value.replace('"', '""') + '"'
