-- From format 5 to 6.

-- Permission bits, programs' own attributes and pins of items that are not here any more, by their ids: they are
-- back with the item (replica/local_attributes.py).
CREATE TABLE kept (
  kind         TEXT NOT NULL,
  remote_id    TEXT NOT NULL,
  mode         INTEGER NOT NULL,
  sha1         TEXT,                          -- of a file: the bytes that these bits were said of
  attributes   TEXT NOT NULL,                 -- JSON: [name, value in hex] each
  pinned_at    INTEGER,                       -- NULL: it was not pinned
  kept_at      INTEGER NOT NULL,
  PRIMARY KEY (kind, remote_id)
) WITHOUT ROWID;
