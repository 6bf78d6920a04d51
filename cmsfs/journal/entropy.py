"""Whether bytes look encrypted: as random as they can be, and of no format that compresses.

Rule: judged by the first bytes alone, a few microseconds a file: this is asked of everything that is saved.
"""

# So much of the beginning is looked at; of less nothing can be said.
HEAD = 1024
LEAST = 48

# Of random bytes nearly as many different ones are found as can be expected; of text, tables and programs
# half of them.
_PART = 0.88

_EXPECTED = [256 * (1 - (255 / 256) ** count) for count in range(HEAD + 1)]

# What begins so is compressed, and looks random behind that; it is what its format says.
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
# Films and photos of some makers have theirs behind a length.
_LATER = (b"ftyp", b"moov", b"mdat", b"JXL ")


def looks_encrypted(head: bytes) -> bool:
    """Whether a file that begins so may be encrypted."""
    head = head[:HEAD]
    if len(head) < LEAST or len(set(head)) < _PART * _EXPECTED[len(head)]:
        return False
    return not head.startswith(_FORMATS) and head[4:8] not in _LATER
