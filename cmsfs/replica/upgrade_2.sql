-- From format 2 to 3 (schema.sql explains the columns).

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
