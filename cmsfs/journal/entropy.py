"""Detects bytes that look encrypted: random, and not of a known compressed format.

Rule: look at the first bytes only, a few microseconds per file, because every saved file is checked.
"""

# Number of bytes examined, and the least that allows a judgement.
HEAD = 1024
LEAST = 48

# Share of the expected number of distinct byte values: random bytes reach nearly all of it, text, tables and
# programs about half.
_PART = 0.88

_EXPECTED = [256 * (1 - (255 / 256) ** count) for count in range(HEAD + 1)]

# Signatures of compressed formats, whose contents look random.
_FORMATS = (
    *(
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"\x1f\x8b",
        b"BZh",
        b"\xfd7zXZ",
        b"7z\xbc\xaf",
        b"Rar!",
        b"\x28\xb5\x2f\xfd",
    ),
    *(b"\x04\x22\x4d\x18", b"LZIP", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"II*\x00", b"MM\x00*"),
    *(b"%PDF", b"%!PS", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"fLaC", b"\x1aE\xdf\xa3"),
    *(
        b"\xd0\xcf\x11\xe0",
        b"wOFF",
        b"wOF2",
        b"\x7fELF",
        b"MZ",
        b"SQLite format",
        b"PACK",
        b"\x00\x00\x01\x00",
    ),
)
# Signatures of video and photo formats that follow a length field.
_LATER = (b"ftyp", b"moov", b"mdat", b"JXL ")


def looks_encrypted(head: bytes) -> bool:
    """Whether a file that starts with these bytes may be encrypted."""
    head = head[:HEAD]
    if len(head) < LEAST or len(set(head)) < _PART * _EXPECTED[len(head)]:
        return False
    return not head.startswith(_FORMATS) and head[4:8] not in _LATER
