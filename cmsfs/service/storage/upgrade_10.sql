-- Contents in a bucket that lost their last version (see s3_blobs.py); a folder has them moved aside instead.
CREATE TABLE aside (
  sha1   TEXT PRIMARY KEY,
  state  INTEGER NOT NULL,                     -- 0 it can be brought back, 1 it is being removed, 2 it is gone
  since  INTEGER NOT NULL
) WITHOUT ROWID;
