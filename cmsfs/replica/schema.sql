-- replica.db: all local state of one account.  One file, so that the tree, the journal and what is
-- known of cached content change together or not at all.
--
-- Times are integers: nanoseconds since the epoch where the column says _ns, seconds elsewhere.

-- The tree.  One row a file, folder or web link, whether the service knows it yet or not.
CREATE TABLE node (
  -- The inode number.  AUTOINCREMENT, because the kernel may still hold a number that was just
  -- unlinked: a number is never used twice.  1 is the root, 2 is reserved for the trash.
  ino          INTEGER PRIMARY KEY AUTOINCREMENT,
  -- NULL: detached (unlinked here, but a handle or a pending operation still needs it).
  parent       INTEGER REFERENCES node(ino),
  name         TEXT NOT NULL,
  -- names.name_key(name): two names with one key cannot live in one folder of the service.
  name_key     TEXT NOT NULL,
  kind         TEXT NOT NULL CHECK (kind IN ('file', 'folder', 'web_link', 'symlink')),
  size         INTEGER NOT NULL DEFAULT 0,
  mtime_ns     INTEGER NOT NULL,
  ctime_ns     INTEGER NOT NULL,
  -- The access time, where a program has set one; NULL: the modification time.
  atime_ns     INTEGER,
  -- Permission bits without the file type.  The service has no place for them: they live here only.
  mode         INTEGER NOT NULL,
  -- SHA-1 (hex) of the content a reader gets when there is no draft; NULL for folders, links and
  -- files that were made here and not sealed yet.
  sha1         TEXT,
  -- Unsealed content written here, over `sha1`; NULL: none.
  draft        INTEGER REFERENCES draft(id),

  -- What the service has, as last heard.  All NULL: the service does not know this node yet.
  remote_id    TEXT,
  etag         TEXT,
  version      TEXT,        -- file_version id of base_sha1
  base_sha1    TEXT,        -- content at the service; differs from sha1 while an upload is due
  base_parent  TEXT,        -- remote id of the folder it is in at the service
  base_name    TEXT,        -- its name at the service; differs from name while a move is due
  base_key     TEXT,        -- names.name_key(base_name): who holds a name at the service
  -- sequence_id of the item as last heard; what is older than this is old news and is ignored.
  sequence     INTEGER NOT NULL DEFAULT 0,
  item         TEXT,        -- what the service said of it and has no column here (JSON): shown, not interpreted
  seen         INTEGER NOT NULL DEFAULT 0,  -- generation of the last listing that contained it
  -- 1: lives on this machine only, and never has an op (vfs/heuristics/local_files.py); 2: so does replica/sharing/shares.py's folder.
  local        INTEGER NOT NULL DEFAULT 0,
  number       INTEGER  -- the inode number that programs see of a file: by where it first was (numbers.py); NULL: ino
);
CREATE UNIQUE INDEX node_number ON node(number) WHERE number IS NOT NULL;
CREATE UNIQUE INDEX node_place ON node(parent, name_key) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX node_remote ON node(kind, remote_id) WHERE remote_id IS NOT NULL;
CREATE INDEX node_children ON node(parent, ino) WHERE parent IS NOT NULL;
CREATE INDEX node_base ON node(base_parent, base_key) WHERE base_parent IS NOT NULL;
CREATE INDEX node_content ON node(sha1) WHERE sha1 IS NOT NULL;
CREATE INDEX node_draft ON node(draft) WHERE draft IS NOT NULL;
CREATE INDEX node_detached ON node(ino) WHERE parent IS NULL;
CREATE INDEX node_local ON node(ino) WHERE local;
-- Conflict copies (naming.CONFLICT_MARK): few among many.
CREATE INDEX node_conflict ON node(mtime_ns)
  WHERE parent IS NOT NULL AND instr(name, ' (conflicted copy of ') > 0;
-- Files that somebody has locked at the service: a handful among a million.
CREATE INDEX node_locked ON node(ino) WHERE instr(item, '"lock":') > 0;
CREATE INDEX node_surplus ON node(base_sha1) WHERE parent IS NULL AND base_parent IS NOT NULL;

-- Nodes that news took from their place, and from where (replica/merge/lineages.py): what a program that has one open
-- writes to it is nowhere else.  A detached node without a row was removed or replaced by a program here.
CREATE TABLE lineage (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  parent       INTEGER,                       -- the folder it was in, which may have gone, too
  name         TEXT NOT NULL,
  successor    INTEGER,                       -- the node that has its item by now; NULL: none on the drive
  -- 1: the service has it, and does not show it to us any more (replica/sharing/lost_access.py).
  lost         INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX lineage_parent ON lineage(parent);
CREATE INDEX lineage_successor ON lineage(successor) WHERE successor IS NOT NULL;

-- What the service has no place for: where a symbolic link leads (any bytes) ...
CREATE TABLE symlink (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  target       BLOB NOT NULL
);

-- ... and extended attributes, by their whole names.
CREATE TABLE xattr (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  value        BLOB NOT NULL,
  PRIMARY KEY (ino, name)
) WITHOUT ROWID;

-- The content of a web link's file as it was written here, where that differs from what the drive writes for
-- the same address and description (other line ends, an icon).  The service keeps what it says, not how.
CREATE TABLE shortcut (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  text         BLOB NOT NULL
);

-- Bytes that the service has as an older version of a file, and that a node here still consists of: the
-- backup which an editor leaves when the file itself gets the next version.
CREATE TABLE past (
  sha1         TEXT PRIMARY KEY,
  remote_id    TEXT NOT NULL,
  version      TEXT
) WITHOUT ROWID;

-- Folders whose content is completely known.  A row here is what lets `ls` answer without a request.
-- A negative `listed_at` is not that yet: the listing of everything of this generation has seen the folder,
-- and makes all of these known when it ends.
CREATE TABLE listing (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  listed_at    INTEGER NOT NULL
);

-- Bytes on this disk, by what they are: one row a distinct content, whichever files have it.
CREATE TABLE content (
  sha1         TEXT PRIMARY KEY,
  size         INTEGER NOT NULL,
  bitmap       BLOB,                          -- a bit a 16 KiB block, LSB first; NULL: all present
  verified     INTEGER NOT NULL DEFAULT 0,    -- 1: whole, and checked against sha1
  dirty        INTEGER NOT NULL DEFAULT 0,    -- 1: not at the service yet; kept with the drafts, never evicted
  pinned       INTEGER NOT NULL DEFAULT 0,    -- 1: outside the cache limit
  used_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX content_used ON content(used_at);
CREATE INDEX pin_content ON content(sha1) WHERE pinned;

-- Content being written: a sparse file `drafts/<id>` laid over a base content.
CREATE TABLE draft (
  -- AUTOINCREMENT: a file left behind by a crash must never be taken for a newer draft.
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  base_sha1    TEXT,                          -- NULL: nothing below
  base_total   INTEGER NOT NULL DEFAULT 0,    -- size of the base
  base_size    INTEGER NOT NULL DEFAULT 0,    -- from here on the base no longer shows (it was cut off)
  size         INTEGER NOT NULL DEFAULT 0,
  extents      TEXT NOT NULL DEFAULT '[]',    -- JSON [[start, end], ...]: ranges that the draft file holds
  -- The bytes themselves, up to the end of the last range, while they are few: durable with the row, so that the
  -- file need not be fsynced; after a crash the file is made from them.  NULL: they are in the file alone.
  data         BLOB
);

CREATE INDEX draft_base ON draft(base_sha1) WHERE base_sha1 IS NOT NULL;

-- What is still to be told to the service.  At most one row of a kind for a node: a row says what is
-- to be brought about, and the worker reads the node for how it stands then.
CREATE TABLE op (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  ino          INTEGER NOT NULL REFERENCES node(ino),
  kind         TEXT NOT NULL CHECK (kind IN ('mkdir', 'upload', 'move', 'touch', 'describe', 'trash')),
  state        TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'running', 'held')),
  -- Counts every change of what is to be brought about; a worker that finds another number than it
  -- started with must not delete the row.
  revision     INTEGER NOT NULL DEFAULT 0,
  attempts     INTEGER NOT NULL DEFAULT 0,
  not_before   INTEGER NOT NULL,              -- _ns: settle time, or back-off after a failure
  error        TEXT,                          -- why it is held, or what the last attempt met
  UNIQUE (ino, kind)
);
CREATE INDEX op_due ON op(state, not_before);
CREATE INDEX op_order ON op(state, seq);

-- Large files on their way in parts: what the service gave us to go on with after a restart.
CREATE TABLE upload (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  sha1         TEXT NOT NULL,                 -- of the whole file; other bytes need another session
  target       TEXT NOT NULL,                 -- JSON: the item to be replaced, or the folder and the name
  session      TEXT NOT NULL                  -- JSON: the session as the service described it
);

-- Uploads and new folders without an answer yet: the service may have them (replica/rows/in_flight.py).
CREATE TABLE unheard (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  sha1         TEXT NOT NULL,                 -- of the bytes; of a folder: 'folder ' and when (_ns) it was asked for
  remote_id    TEXT,                          -- the item they are to be a version of; NULL: a new item
  folder       TEXT,                          -- of a new item: remote id of its folder
  name         TEXT,                          -- and its name, as sent
  name_key     TEXT                           -- names.name_key(name)
);
CREATE INDEX unheard_ino ON unheard(ino);
CREATE INDEX unheard_item ON unheard(remote_id) WHERE remote_id IS NOT NULL;

-- Items of which something is known that was left aside, since work of ours was under way: they are asked
-- about when that has ended (replica/merge/deferred_updates.py).
CREATE TABLE doubt (
  kind         TEXT NOT NULL,
  remote_id    TEXT NOT NULL,
  ino          INTEGER,                       -- the node whose work was in the way
  folder       TEXT,                          -- or: remote id of the folder in which ours is being made,
  name_key     TEXT,                          -- and names.name_key of its name
  sequence     INTEGER NOT NULL,              -- sequence_id of what was left aside
  PRIMARY KEY (kind, remote_id)
) WITHOUT ROWID;

-- Deletions at the service, the newest ones: older news of an item may come when its node is gone
-- (replica/rows/deleted_items.py).
CREATE TABLE deleted (
  id           INTEGER PRIMARY KEY,           -- in the order in which we heard of them
  kind         TEXT NOT NULL,
  remote_id    TEXT NOT NULL,
  sequence     INTEGER NOT NULL,              -- sequence_id with which it was deleted
  UNIQUE (kind, remote_id)
);

-- Items that are kept here whole with all that is below them, whatever the cache's limit (replica/pins.py).
CREATE TABLE pin (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  pinned_at    INTEGER NOT NULL
);

-- What was asked about single items, beside what comes with listings (daemon/content/item_details.py).
CREATE TABLE fact (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  kind         TEXT NOT NULL CHECK (kind IN ('item', 'metadata')),
  etag         TEXT,                          -- of the item when it was asked; another one: ask again
  learned_at   INTEGER NOT NULL,
  value        TEXT NOT NULL,                 -- JSON: the item with all fields, or its metadata instances
  PRIMARY KEY (ino, kind)
) WITHOUT ROWID;

-- What holds and retention policies are assigned to, as last read: all of it or nothing.
CREATE TABLE assignment (
  kind         TEXT NOT NULL CHECK (kind IN ('hold', 'retention')),
  id           TEXT NOT NULL,
  target_type  TEXT NOT NULL,                 -- folder, file, file_version, user, enterprise, metadata_template ...
  target       TEXT NOT NULL,                 -- its id; '' for the enterprise
  value        TEXT NOT NULL,                 -- JSON: the assignment, its policy in it
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX assignment_target ON assignment(target_type, target);

-- Description and tags that were set here and are not at the service yet; NULL: as the service has it.
CREATE TABLE described (
  ino          INTEGER PRIMARY KEY REFERENCES node(ino) ON DELETE CASCADE,
  description  TEXT,
  tags         TEXT                           -- JSON: a list of texts
);

-- Values of metadata that were set here on what the service did not have yet, and are still to be sent.
CREATE TABLE wished (
  ino          INTEGER NOT NULL REFERENCES node(ino) ON DELETE CASCADE,
  place        TEXT NOT NULL,                 -- scope.template.field
  value        TEXT NOT NULL,                 -- as it was given; the template says what it means
  PRIMARY KEY (ino, place)
) WITHOUT ROWID;

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

-- Single values: change cursor, boot id, clean-shutdown mark.
CREATE TABLE cursor (
  key          TEXT PRIMARY KEY,
  value        TEXT NOT NULL
) WITHOUT ROWID;

-- The two numbers that exist before anything else.
INSERT INTO node(ino, parent, name, name_key, kind, mtime_ns, ctime_ns, mode, remote_id)
VALUES (1, NULL, '', '', 'folder', 0, 0, 493, '0');
INSERT INTO node(ino, parent, name, name_key, kind, mtime_ns, ctime_ns, mode)
VALUES (2, NULL, '.trash', '.trash', 'folder', 0, 0, 448);
