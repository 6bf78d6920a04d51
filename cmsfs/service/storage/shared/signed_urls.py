"""Signed URLs: state what they open and until when, and cannot be forged.

The key is with the store, in its folder or its database: all processes that serve the store know it, and a
restart keeps what was given out.

Rule: a word says what was allowed when it was made; whoever takes it judges anew what is allowed now.
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

_PROOF = 20  # bytes of the signature in a word
_KEY = 32


class SignedUrls:
    """The words of one store; `read_key` gives the key that they are signed with, and is called once."""

    def __init__(self, read_key: Callable[[], bytes]) -> None:
        self._read_key = read_key
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


def key_of(file: Path) -> bytes:
    """The key in a file, made if there is none; of several who make one at once the first has made it."""
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
            except OSError:  # a file system without links
                fresh.rename(file)
        finally:
            os.close(descriptor)
            fresh.unlink(missing_ok=True)
    return file.read_bytes()


def new_key() -> bytes:
    return chance.token_bytes(_KEY)
