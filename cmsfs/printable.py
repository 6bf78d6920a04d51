"""Escapes control characters in untrusted text before it reaches a terminal or notification.

Names and sentences of a service may hold escape sequences, other controls, characters that turn the direction
of writing, and some that nobody sees.  Each becomes a visible escape, as `ls` has them.

Rule: what is printable stays as it is, in every script.
"""

import re
import unicodedata

# Joiners belong to some scripts, and to pictures made of several: between two characters that are not ASCII.
_JOINERS = "\u200c\u200d"
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\x1b": r"\e"}

# Controls, formats (turned writing, no width), halves of pairs, private and unassigned, ends of lines.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
_LINK = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*):/+")


def escaped(text: str, *, keep: str = "") -> str:
    """The text with an escape (`\\e`, `\\x9b`, `\\u202e`) for each character that would not be seen; those in
    `keep` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if one in keep or is_seen(text, place) else _escape(one) for place, one in enumerate(text)
    )


def is_seen(text: str, place: int) -> bool:
    """Whether the character at this place shows as itself and does nothing else."""
    one = text[place]
    if unicodedata.category(one) not in _UNSEEN:
        return True
    if one not in _JOINERS or not 0 < place < len(text) - 1:
        return False
    return ord(text[place - 1]) > 0xFF and ord(text[place + 1]) > 0xFF


def _escape(one: str) -> str:
    if one in _SHORT:
        return _SHORT[one]
    code = ord(one)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def without_links(text: str) -> str:
    """The text as `shown`, with no address in it that a program would offer to open."""
    return _LINK.sub(r"\1: ", escaped(text))


def without_markup(text: str) -> str:
    """As `without_links`, for where markup is understood: it stands there as it was written."""
    return "".join(_MARKUP.get(one, one) for one in without_links(text))
