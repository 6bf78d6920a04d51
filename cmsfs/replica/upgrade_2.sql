-- From format 2 to 3 (schema.sql explains the columns).

-- Web links as they were written here.
CREATE TABLE shortcut (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  text         BLOB NOT NULL
);

-- What was left aside while work of ours was under way.
CREATE TABLE doubt (
  kind         TEXT NOT NULL,
  remote_id    TEXT NOT NULL,
  ino          INTEGER,
  folder       TEXT,
  name_key     TEXT,
  sequence     INTEGER NOT NULL,
  PRIMARY KEY (kind, remote_id)
) WITHOUT ROWID;

-- Conflict copies are found among a million items at once.
CREATE INDEX node_conflict ON node(mtime_ns)
  WHERE parent IS NOT NULL AND instr(name, ' (conflicted copy of ') > 0;

CREATE INDEX node_locked ON node(ino) WHERE instr(item, '"lock":') > 0;

-- What was asked about single items, beside what comes with listings (daemon/content/item_details.py).
CREATE TABLE fact (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  kind         TEXT NOT NULL CHECK (kind IN ('item', 'metadata')),
  etag         TEXT,
  learned_at   INTEGER NOT NULL,
  value        TEXT NOT NULL,
  PRIMARY KEY (ino, kind)
) WITHOUT ROWID;

-- What holds and retention policies are assigned to, as last read: all of it or nothing.
CREATE TABLE assignment (
  kind         TEXT NOT NULL CHECK (kind IN ('hold', 'retention')),
  id           TEXT NOT NULL,
  target_type  TEXT NOT NULL,
  target       TEXT NOT NULL,
  value        TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX assignment_target ON assignment(target_type, target);

-- Description and tags that were set here and are not at the service yet; NULL: as the service has it.
CREATE TABLE described (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  description  TEXT,
  tags         TEXT
);

-- Describing an item is an operation: widening a constraint in place is the documented way.
PRAGMA writable_schema=ON;
UPDATE sqlite_schema SET sql = replace(sql, '''touch'', ''trash''', '''touch'', ''describe'', ''trash''')
 WHERE type = 'table' AND name = 'op';
PRAGMA writable_schema=RESET;
