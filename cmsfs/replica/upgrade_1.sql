-- From format 1 to 2 (schema.sql explains the columns).

-- Large files on their way in parts, uploads without an answer.
CREATE TABLE upload (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  sha1         TEXT NOT NULL,
  target       TEXT NOT NULL,
  session      TEXT NOT NULL
);

CREATE TABLE unheard (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  sha1         TEXT NOT NULL,
  remote_id    TEXT,
  folder       TEXT,
  name         TEXT,
  name_key     TEXT
);
CREATE INDEX unheard_ino ON unheard(ino);
CREATE INDEX unheard_item ON unheard(remote_id) WHERE remote_id IS NOT NULL;

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

-- What is kept here whole.
CREATE TABLE pin (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  pinned_at    INTEGER NOT NULL
);
CREATE INDEX pin_content ON content(sha1) WHERE pinned;
