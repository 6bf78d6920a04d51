"""Header and parameter names, and the rules for item names, shared by client and service.

Names that the specification leaves open are the public API's.

Rule: `name_key` alone decides whether two names in a folder conflict, both at the service and on the drive.
"""

import re
import unicodedata
from typing import Final

# Upload: the SHA-1 of the file in hexadecimal, despite the header's name.
SHA1_HEADER: Final = "content-md5"
# The session of a request: events have it as `session_id`, and long polls with the same session are not
# notified of them.  A service that does not know it notifies of everything.
SESSION_HEADER: Final = "x-session-id"

VERSION_HEADER: Final = "box-version"
VERSION: Final = "2024.0"

# Search: also items that the caller recently reached through a shared link.
RECENT_SHARED_LINKS: Final = "include_recent_shared_links"

# Token endpoint: the subject of a client-credentials token.  The first spelling is the specification's.
SUBJECT_TYPE: Final = ("service_subject_type", "box_subject_type")
SUBJECT_ID: Final = ("service_subject_id", "box_subject_id")
ASSERTION: Final = "assertion"
RESOURCE: Final = "resource"
LINK_HEADER: Final = "boxapi"
SHARED_LINK: Final = "box_shared_link"

# The caller's root folder, and the folder that represents the trash in paths.
ROOT_ID: Final = "0"
TRASH_ID: Final = "1"

# Maximum length of a name in characters, the unit in the public API's text.
MAX_NAME: Final = 255

NAME_INVALID: Final = "item_name_invalid"
NAME_TOO_LONG: Final = "item_name_too_long"


# Path and line separators, control characters, and lone surrogates.
_FORBIDDEN = re.compile("[/\\\\\u2028\u2029\0-\x1f\x7f-\x9f\ud800-\udfff]")


def name_key(name: str) -> str:
    """Return the key by which names conflict: it ignores case and Unicode normalization."""
    return unicodedata.normalize("NFC", name).casefold()


def name_problem(name: str) -> str | None:
    """Return the error code for an invalid item name; None if it is valid."""
    if len(name) > MAX_NAME:
        return NAME_TOO_LONG
    if not name or name in (".", "..") or name.endswith(" "):
        return NAME_INVALID
    return NAME_INVALID if _FORBIDDEN.search(name) else None
