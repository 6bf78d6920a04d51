-- From format 1 to 2: large files on their way in parts (schema.sql explains the columns).
CREATE TABLE upload (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  sha1         TEXT NOT NULL,
  target       TEXT NOT NULL,
  session      TEXT NOT NULL
);
