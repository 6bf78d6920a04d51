"""Signed tokens for URLs: each contains what it opens and its expiry, and cannot be forged.

The signing key is kept with the store, in its folder or its database, so that all processes of the store
share it, and tokens stay valid across restarts.

Rule: a token states what was permitted when it was issued; whoever accepts it checks permissions again.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cmsfs.runtime import chance

_SIGNATURE_BYTES = 20  # length of the signature in a token
_KEY_BYTES = 32


class UrlSigner:
    """Signs and verifies the tokens of one store; `read_key` returns the key, and is called once."""

    def __init__(self, read_key: Callable[[], bytes]) -> None:
        self._read_key = read_key
        self._key = b""

    def sign(self, kind: str, *values: Any, expires: int) -> str:
        """A token for these values, which must be JSON; `expires` is in microseconds."""
        data = json.dumps([kind, expires, *values], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._signature(data) + data).decode().rstrip("=")

    def verify(self, kind: str, token: str, *, now: int) -> list[Any] | None:
        """The values of a token of this kind; None if it is forged or expired, or of another kind."""
        try:
            found = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (ValueError, binascii.Error):
            return None
        signature, data = found[:_SIGNATURE_BYTES], found[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(data)):
            return None
        what, expires, *values = json.loads(data)
        return values if what == kind and now < expires else None

    def _signature(self, data: bytes) -> bytes:
        if not self._key:
            self._key = self._read_key()
        return hmac.new(self._key, data, hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def read_or_create_key(file: Path) -> bytes:
    """The key in a file, created if there is none; if several processes create one, the first wins."""
    if not file.exists():
        fresh = file.with_name(f"{file.name}.{os.getpid()}.{chance.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, new_key())
            os.fsync(descriptor)
            try:
                file.hardlink_to(fresh)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                fresh.rename(file)
        finally:
            os.close(descriptor)
            fresh.unlink(missing_ok=True)
    return file.read_bytes()


def new_key() -> bytes:
    return chance.token_bytes(_KEY_BYTES)
