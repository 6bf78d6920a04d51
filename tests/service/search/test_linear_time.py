"""What strangers write costs the service time in proportion to its length, whatever it is.

Measured is the processor time of this thread, so that a busy machine changes nothing; sizes grow by half, and
what takes twice as long as it should twice running is found after milliseconds, not after hours.
"""

import time
from collections.abc import Callable

import multipart
import pytest

from cmsfs.cli.doctor import support_bundle
from cmsfs.models import wire_names
from cmsfs.models.content import comments
from cmsfs.query import fts_query, parser
from cmsfs.service.renditions import representations
from cmsfs.service.storage import blobs
from cmsfs.service.worker import extraction

# Below this nothing is worth measuring.
NOISE = 0.004

# Half as much again may take this much longer: in proportion is 1.5, its square 2.25.
LIMIT = 2.0


def seconds(work: Callable[[], object]) -> float:
    """The least processor time of a few tries; one is enough of what takes long, or nothing to speak of."""
    best = float("inf")
    for _ in range(5):
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
        if best > 0.2 or best <= NOISE:
            break
    return best


def is_steep(work: Callable[[int], object], most: int) -> bool:
    """Whether the time grows faster than the size: twice running, or by leaps."""
    size, before, steep = 8, NOISE, 0
    while size <= most:
        took = seconds(lambda size=size: work(size))  # type: ignore[misc]
        steep = steep + 1 if took > LIMIT * before else 0
        if steep == 2 or took > 8 * before:
            return True
        size, before = size + size // 2, max(took, NOISE)
    return False


def test_the_measure_finds_what_is_steep():
    assert is_steep(lambda size: [0 for _ in range(2 ** min(size, 22))], 28)
    assert is_steep(lambda size: [0 for _ in range(size * size)], 5000)
    assert not is_steep(lambda size: [0 for _ in range(size * 50)], 50_000)


# What makes expressions go back: an opening that may be followed by what never closes it.
PIECES = [
    *("<!---->", "<!--", "<!-- -->", "-->", "<?xml ", "<?xml>", " ", "\n", "<!doctype ", "<html", "<", ">"),
    *("%PDF-", "{\\rtf", "PK\x03\x04", "\0", "ä", "\x1b", '"', '"a', 'a"', "a", "a b ", "(", "NOT "),
    *(
        "a AND ",
        "[",
        "[a",
        "[]",
        "@[",
        "@[1:",
        "@[1",
        "@[1:a]",
        "@",
        "a@",
        "a@b.",
        "\\",
        '; a="',
        '; a="\\"',
        ";",
    ),
    *(
        "; a=b",
        "eyJaaaaaaaa.",
        "eyJaaaaaaaa-",
        "-----BEGIN PRIVATE KEY-----",
        "token:",
        "bearer aaaaaaaa",
        "code  ",
    ),
    *("-", "size:", "in:a ", "metadata:", "1", "0"),
]


READERS: dict[str, tuple[Callable[[str], object], int]] = {
    "content": (
        lambda text: extraction.first_look(text.encode()[: blobs.HEAD_BYTES], 10**9),
        blobs.HEAD_BYTES,
    ),
    "query": (lambda text: _compiled(text), 8_192),
    "name": (lambda text: (wire_names.name_problem(text), wire_names.name_key(text)), 16_384),
    "comment": (comments.untagged, comments.MAX_MESSAGE),
    "header of hints": (representations._HINT.findall, 16_384),
    "header of a form": (lambda text: multipart.parse_options_header(f"form-data;{text}"), 16_384),
    "words typed": (parser._split, 16_384),
    "log": (lambda text: [one.sub("", text) for one in support_bundle._SUSPICIOUS], 6_000),
}


def _compiled(text: str) -> object:
    try:
        return fts_query.compile_query(text)
    except fts_query.TooLong:
        return None


@pytest.mark.parametrize("reader", READERS)
def test_the_time_grows_with_the_length(reader):
    read, most = READERS[reader]
    steep = []
    for piece in PIECES:
        for end in ("", "x"):
            longest = most // len(piece.encode())

            def work(size: int, piece: str = piece, end: str = end) -> object:
                try:
                    return read(piece * size + end)
                except Exception as error:  # refused is as good as read
                    return error

            if is_steep(work, longest):
                steep.append(piece + end)
    assert steep == []


def test_html_lookahead_is_prologue_independent():
    for prologue in ("", " \n", "<?xml version='1.0'?>", "<!-- a -->", "<?xml ?>\n<!-- --> <!--b-->\n"):
        for start in ("<html>", "<HTML lang=en>", "<!DOCTYPE html>", "<!doctype  HTML PUBLIC>"):
            head = (prologue + start).encode()
            assert extraction.first_look(head, len(head)) == extraction.FirstLook("", True)
    for other in ("<!-- a --><svg>", "<?xml <html>", "<!-- <html>", "<htmlx>", "<!-->-<html>", "a<html>"):
        head = other.encode()
        assert extraction.first_look(head, len(head)).text == other
