"""Flash messages: confirmations and new secrets that are shown once on the next page.

A form is answered with a redirect, so that a reload repeats nothing, and any process may answer the next
request.  Until then the browser itself keeps the message, in a cookie that is encrypted under the secret of
its login.

Rule: a message is readable for a moment only, and its cookie is deleted when it is shown.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from cmsfs.runtime import clock

LIFETIME_SECONDS = 120

# In bytes: browsers keep cookies of up to 4 KiB, and this one has a secret or two as well.
_MAX_TEXT = 1800


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """A message with secrets by their names; `failed` marks a message about something that was not done."""

    text: str
    secrets: dict[str, str] = field(default_factory=dict)
    failed: bool = False


def seal(message: FlashMessage, secret: str) -> str:
    """Return a message as the value of a cookie; a long text is cut off."""
    shown = asdict(message)
    text = message.text.encode("utf-8", "replace")
    if len(text) > _MAX_TEXT:
        shown["text"] = text[:_MAX_TEXT].decode("utf-8", "ignore") + " ..."
    data = json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace")
    return str(_cipher(secret).encrypt_at_time(data, int(clock.time())).decode())


def unseal(text: str, secret: str) -> FlashMessage | None:
    """Return the message in a cookie; None if it is not one of these, or too old."""
    from cryptography.fernet import InvalidToken

    try:
        sealed = text.encode("utf-8", "replace")
        data = _cipher(secret).decrypt_at_time(sealed, LIFETIME_SECONDS, int(clock.time()))
    except InvalidToken:
        return None
    return FlashMessage(**json.loads(data))


def _cipher(secret: str) -> Any:
    # Imported on first use: the drive's embedded service shows no pages.
    from cryptography.fernet import Fernet

    key = hmac.new(secret.encode(), b"message", hashlib.sha256).digest()
    return Fernet(base64.urlsafe_b64encode(key))
