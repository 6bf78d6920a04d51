-- From format 1 to 2: large files on their way in parts, uploads without an answer (schema.sql explains the columns).
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

-- What is kept here whole.
CREATE TABLE pin (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  pinned_at    INTEGER NOT NULL
);
CREATE INDEX pin_content ON content(sha1) WHERE pinned;
