"""What SQLite takes for a letter, and for which: the words of PostgreSQL are made to be the same.

`python -m tests.support.sqlite_letters` writes letters.sql anew.  SQLite's tables are those of one version of
Unicode, and what came later is part of a word there; so no property that another library knows will do.
"""

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing

CHARACTERS = [chr(number) for number in range(1, 0x110000) if not 0xD800 <= number < 0xE000]

_TOKENIZE = "unicode61 remove_diacritics 2"

_TEXT = """\
-- Which characters make a word, and which of them are the same: as SQLite's tokenizer has it that the index
-- of words uses there (unicode61).  Written by `python -m tests.support.sqlite_letters`.

CREATE OR REPLACE FUNCTION other_words_of(content text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  marks CONSTANT text :=
{marks};
  separators CONSTANT text :=
{separators};
  others CONSTANT text :=
{others};
  variants CONSTANT text :=
{variants};
  letters CONSTANT text :=
{letters};
  found text;
  present text;
BEGIN
  found := regexp_replace(lower(content COLLATE "C"), marks, '', 'g');
  found := regexp_replace(found COLLATE "C", separators, ' ', 'g');
  -- Of the many variants of letters a text has few, and each that is looked for takes its time.
  present := regexp_replace(found COLLATE "C", others, '', 'g');
  IF present != '' THEN
    SELECT string_agg(DISTINCT one, '') INTO present FROM string_to_table(present, NULL) AS t (one);
    found := translate(found, present, translate(present, variants, letters));
  END IF;
  RETURN ' ' || btrim(found) || ' ';
END $$;

CREATE OR REPLACE FUNCTION words_of(content text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
  IF octet_length(content) = length(content) THEN
    RETURN ' ' || btrim(regexp_replace(lower(content COLLATE "C"), '[^a-z0-9]+', ' ', 'g')) || ' ';
  END IF;
  RETURN other_words_of(content);
END $$;
"""


def words(texts: Iterable[str]) -> list[list[str]]:
    """The words of each text, as SQLite indexes them."""
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(f"CREATE VIRTUAL TABLE word USING fts5 (text, tokenize = '{_TOKENIZE}')")
        conn.execute("CREATE VIRTUAL TABLE said USING fts5vocab (word, instance)")
        found: list[list[str]] = []
        for number, text in enumerate(texts):
            conn.execute("INSERT INTO word (rowid, text) VALUES (?, ?)", (number, text))
            found.append([])
        for number, term in conn.execute("SELECT doc, term FROM said ORDER BY doc, offset"):
            found[number].append(term)
        return found


def letters_sql() -> str:
    """The text of letters.sql."""
    marks, separators, variants = [], [], {}
    for character, found in zip(CHARACTERS, words(f"a{one}b" for one in CHARACTERS), strict=True):
        if found == ["a", "b"]:
            separators.append(character)
        elif found == ["ab"]:
            marks.append(character)
        elif found[0][1:-1] != character and not character.isascii():
            variants[character] = found[0][1:-1]
    return _TEXT.format(
        marks=_literal(["[", *_ranges(marks), "]+"]),
        separators=_literal(["[", *_ranges(separators), "]+"]),
        others=_literal(["[^", *_ranges([*variants]), "]+"]),
        variants=_literal(variants),
        letters=_literal(variants.values()),
    )


def _ranges(characters: list[str]) -> Iterator[str]:
    first = last = ord(characters[0])
    for number in (*map(ord, characters[1:]), 0x110000):
        if number > last + 1:
            yield _escaped(first) if first == last else f"{_escaped(first)}-{_escaped(last)}"
            first = number
        last = number


def _escaped(number: int) -> str:
    return rf"\u{number:04X}" if number < 0x10000 else rf"\U{number:08X}"


def _literal(pieces: Iterable[str]) -> str:
    """A literal in lines; those of one literal need nothing between them."""
    lines = [""]
    for piece in pieces:
        if len(lines[-1]) + len(piece) > 100:
            lines.append("")
        lines[-1] += piece
    return "\n".join(f"    '{line}'" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(letters_sql())
