-- What lives on this machine only: symbolic links, extended attributes, temporary names; and the older
-- versions that backups consist of.
ALTER TABLE node ADD COLUMN local INTEGER NOT NULL DEFAULT 0;
CREATE INDEX node_local ON node(ino) WHERE local;
CREATE TABLE symlink (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  target       BLOB NOT NULL
);
CREATE TABLE xattr (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  value        BLOB NOT NULL,
  PRIMARY KEY (ino, name)
) WITHOUT ROWID;
CREATE TABLE past (
  sha1         TEXT PRIMARY KEY,
  remote_id    TEXT NOT NULL,
  version      TEXT
) WITHOUT ROWID;
-- A constraint cannot be altered; widening one in place is the documented way.
PRAGMA writable_schema=ON;
UPDATE sqlite_schema SET sql = replace(sql, '''web_link''))', '''web_link'', ''symlink''))')
 WHERE type = 'table' AND name = 'node';
PRAGMA writable_schema=RESET;
