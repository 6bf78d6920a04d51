"""Headers, parameter names and the rules for item names that both sides must agree on.

The specification leaves several names open; they are the public API's.  Here is the one place to read
them and the one place to correct them.

Rule: `name_key` decides alone whether two names in a folder clash, at the service and on the drive.
"""

import re
import unicodedata
from typing import Final

# Upload: the SHA-1 of the file in hexadecimal.  The name says MD5; the content is SHA-1.
SHA1_HEADER: Final = "content-md5"
# Whose change a request makes: told in `session_id` of its events, and not announced to who waits with the
# same one.  A service that does not know it announces everything.
SESSION_HEADER: Final = "x-session-id"

VERSION_HEADER: Final = "box-version"
VERSION: Final = "2024.0"

# Search: also items that the caller recently reached through a shared link.
RECENT_SHARED_LINKS: Final = "include_recent_shared_links"

# Token endpoint: who a client-credentials token speaks for.  The first spelling is the specification's.
SUBJECT_TYPE: Final = ("service_subject_type", "box_subject_type")
SUBJECT_ID: Final = ("service_subject_id", "box_subject_id")
ASSERTION: Final = "assertion"
RESOURCE: Final = "resource"
LINK_HEADER: Final = "boxapi"
SHARED_LINK: Final = "box_shared_link"

# The root folder of whoever asks, and the folder that stands for the trash in paths.
ROOT_ID: Final = "0"
TRASH_ID: Final = "1"

# Characters of a name.  The unit is not documented; characters is what the public API's text says.
MAX_NAME: Final = 255

NAME_INVALID: Final = "item_name_invalid"
NAME_TOO_LONG: Final = "item_name_too_long"


# Separators, of paths and of lines; controls; and halves of surrogate pairs, which are no characters at all.
_FORBIDDEN = re.compile("[/\\\\\u2028\u2029\0-\x1f\x7f-\x9f\ud800-\udfff]")


def name_key(name: str) -> str:
    """What two names have in common when they clash: equal but for case and for composed accents."""
    return unicodedata.normalize("NFC", name).casefold()


def name_problem(name: str) -> str | None:
    """The error code for a name that no item may have; None if it is good."""
    if len(name) > MAX_NAME:
        return NAME_TOO_LONG
    if not name or name in (".", "..") or name.endswith(" "):
        return NAME_INVALID
    return NAME_INVALID if _FORBIDDEN.search(name) else None
