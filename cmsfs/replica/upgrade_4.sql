-- From format 4 to 5 (schema.sql explains the columns).

ALTER TABLE node ADD COLUMN atime_ns INTEGER;

CREATE TABLE wished (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  place        TEXT NOT NULL,
  value        TEXT NOT NULL,
  PRIMARY KEY (ino, place)
) WITHOUT ROWID;
