"""Signed URLs: state what they open and until when, and cannot be forged.

The key is a file in the store's folder: all processes that serve the store know it, and a restart keeps what
was given out.

Rule: a word says what was allowed when it was made; whoever takes it judges anew what is allowed now.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

from cmsfs.runtime import chance

_PROOF = 20  # bytes of the signature in a word
_KEY = 32


class SignedUrls:
    """The words of one store, signed with the key in a file."""

    def __init__(self, key: Path) -> None:
        self._file = key
        self._key = b""

    def word(self, kind: str, *values: Any, ends: int) -> str:
        """A word for these values, which are JSON, good until a moment in microseconds."""
        data = json.dumps([kind, ends, *values], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._proof(data) + data).decode().rstrip("=")

    def read(self, kind: str, word: str, *, now: int) -> list[Any] | None:
        """The values of a word of this kind; None for one that is not ours, or has ended."""
        try:
            found = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
        except (ValueError, binascii.Error):
            return None
        proof, data = found[:_PROOF], found[_PROOF:]
        if not hmac.compare_digest(proof, self._proof(data)):
            return None
        what, ends, *values = json.loads(data)
        return values if what == kind and now < ends else None

    def _proof(self, data: bytes) -> bytes:
        if not self._key:
            self._key = self._read_key()
        return hmac.new(self._key, data, hashlib.sha256).digest()[:_PROOF]

    def _read_key(self) -> bytes:
        """The key, made if there is none; of several who make one at once the first has made it."""
        if not self._file.exists():
            fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}.{chance.token_hex(4)}")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, chance.token_bytes(_KEY))
                os.fsync(descriptor)
                try:
                    self._file.hardlink_to(fresh)
                except FileExistsError:
                    pass
                except OSError:  # a file system without links
                    fresh.rename(self._file)
            finally:
                os.close(descriptor)
                fresh.unlink(missing_ok=True)
        return self._file.read_bytes()
