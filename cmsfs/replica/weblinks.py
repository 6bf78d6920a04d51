"""Web links as files: the text that a `.url` file holds.

The format is the InternetShortcut of the desktop world, an INI file that file managers and browsers of
all systems open.
"""

import json


def text(url: str) -> bytes:
    """The content of the file that stands for a link to `url`."""
    return f"[InternetShortcut]\nURL={url}\n".encode()


def text_of_item(item_json: str | None) -> bytes:
    """The content of the file that stands for a web link, from the item as the service described it."""
    item = json.loads(item_json) if item_json else {}
    return text(item.get("url") or "")
