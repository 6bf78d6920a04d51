"""What looks encrypted, and what is merely compressed."""

import gzip
import hashlib
import io
import zipfile
from base64 import b64encode

import pytest

from cmsfs.journal.entropy import looks_encrypted

NOISE = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(64))
TEXT = b"The harbour's lease ends in May; Ada asks for an offer by Friday, 12:30 (room 4). " * 20


def _archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", NOISE)
    return target.getvalue()


CASES = {
    "noise": (NOISE, True),
    "a little noise": (NOISE[:64], True),
    "noise behind a word": (b"Salted__" + NOISE, True),
    "too little to say": (NOISE[:32], False),
    "text": (TEXT, False),
    "text in base64": (b64encode(NOISE), False),
    "numbers": (bytes(range(100)) * 10, False),
    "an archive": (_archive(), False),
    "a packed file": (gzip.compress(NOISE), False),
    "a photo": (b"\xff\xd8\xff\xe0" + NOISE, False),
    "a film": (b"\0\0\0\x20ftypmp42" + NOISE, False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_looks_encrypted(name: str) -> None:
    head, expected = CASES[name]
    assert looks_encrypted(head) is expected
