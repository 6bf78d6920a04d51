-- The embedded service's data: who there is, what there is, and what search looks at.
-- Bytes of files are not here but in blobs/ab/<sha1>, on disk before the row that names them.
--
-- Moments are integer microseconds since 1970 in UTC, emitted exactly as they are stored, so that what a
-- client reads can be sent back as the end of a range.  Ids are numbers here and text on the wire.

-- Enterprise 0, there when the first user was deleted, is that of deleted users: others may still have to be
-- told who made a version.
CREATE TABLE enterprise (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  tracking_codes  TEXT NOT NULL DEFAULT '[]',  -- JSON array: the names that users may have codes for; [] is off
  trash_days  INTEGER DEFAULT 30               -- for so long is trash kept; NULL: until somebody empties it
);

CREATE TABLE account (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise          INTEGER NOT NULL REFERENCES enterprise,
  name                TEXT NOT NULL,
  login               TEXT UNIQUE,             -- of an app user: see service/storage/app_users.py; NULL: a deleted user
  role                TEXT NOT NULL,           -- admin, coadmin, user
  status              TEXT NOT NULL DEFAULT 'active',
  space_amount        INTEGER NOT NULL,        -- bytes; -1 is unlimited
  space_used          INTEGER NOT NULL DEFAULT 0, -- bytes of all versions, kept by the triggers on version
  max_upload_size     INTEGER NOT NULL,
  enterprise_content  INTEGER NOT NULL DEFAULT 0, -- 1: may search with that scope
  details             TEXT NOT NULL DEFAULT '{}', -- JSON object: the fields that nothing here looks at
  created_at          INTEGER NOT NULL,
  modified_at         INTEGER NOT NULL,
  root                INTEGER                  -- item: this user's root folder, whose id on the wire is 0
);

-- Users of other enterprises who collaborate on content of this one: they are found by their whole login.
CREATE TABLE collaborator (
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  account     INTEGER NOT NULL REFERENCES account,
  PRIMARY KEY (enterprise, account)
) WITHOUT ROWID;

-- Users to whom the enterprise's list of domains to collaborate with does not apply.
CREATE TABLE exemption (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  account      INTEGER NOT NULL REFERENCES account,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, account)
);

-- An application that may ask for tokens.
CREATE TABLE app (
  client_id      TEXT PRIMARY KEY,
  secret_hash    TEXT NOT NULL,                -- SHA-256 of the secret, in hexadecimal
  name           TEXT NOT NULL,
  enterprise     INTEGER NOT NULL REFERENCES enterprise,
  service_user   INTEGER NOT NULL REFERENCES account, -- for whom an enterprise token speaks
  scopes         TEXT NOT NULL DEFAULT 'root_readwrite', -- with spaces between: what its tokens are good for
  grants         TEXT NOT NULL DEFAULT 'client_credentials', -- with spaces between: how it may get tokens, of
                                               -- authorization_code, client_credentials, jwt_bearer
  redirect_uris  TEXT NOT NULL DEFAULT '[]'    -- JSON array: where codes may be sent
) WITHOUT ROWID;

-- The RSA keys that an application signs its assertions with.
CREATE TABLE app_key (
  app  TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  kid  TEXT NOT NULL,
  pem  TEXT NOT NULL,                          -- the public key
  PRIMARY KEY (app, kid)
) WITHOUT ROWID;

-- Assertions that were taken, so that none is taken twice.
CREATE TABLE assertion (
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  jti         TEXT NOT NULL,
  expires_at  INTEGER NOT NULL,                -- afterwards it is refused for its age
  PRIMARY KEY (app, jti)
) WITHOUT ROWID;

-- Everything that one consent of a user has led to; it ends as a whole.
CREATE TABLE family (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  account     INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  scopes      TEXT,                            -- as of a token
  expires_at  INTEGER NOT NULL                 -- when its newest refresh token does
);
CREATE INDEX family_by_end ON family (expires_at);

-- A family has one refresh token that is good; the ones before it are kept to recognise a thief.
CREATE TABLE refresh_token (
  hash    TEXT PRIMARY KEY,                    -- SHA-256, in hexadecimal; so are all hashes here
  family  INTEGER NOT NULL REFERENCES family ON DELETE CASCADE,
  used    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX refresh_token_of_family ON refresh_token (family);

-- An authorization code; one that was used is kept for a while to recognise a thief.
CREATE TABLE code (
  hash          TEXT PRIMARY KEY,
  app           TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  account       INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  redirect_uri  TEXT NOT NULL,                 -- where the code was sent
  scopes        TEXT,                          -- as of a token
  challenge     TEXT,                          -- PKCE, S256; NULL: none was given
  expires_at    INTEGER NOT NULL,
  used          INTEGER NOT NULL DEFAULT 0,
  family        INTEGER REFERENCES family ON DELETE SET NULL -- what came of it
) WITHOUT ROWID;
CREATE INDEX code_by_end ON code (expires_at);
CREATE INDEX code_of_family ON code (family);

-- An access token.
CREATE TABLE token (
  hash        TEXT PRIMARY KEY,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  account     INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,                -- dead tokens are removed when the next one is issued
  scopes      TEXT,                            -- with spaces between; NULL: all that the application has
  bound       INTEGER,                         -- item that it is good for, and for what is below; NULL: all
  family      INTEGER REFERENCES family ON DELETE CASCADE,
  source      TEXT REFERENCES token ON DELETE CASCADE, -- the wider token that it was made of
  actor       TEXT,                            -- annotator token: JSON object, the id and name of who acts
  link        TEXT                             -- item.link: the shared link that shows what it is bound to;
                                               -- of who has no account with the mark of its password behind
) WITHOUT ROWID;
CREATE INDEX token_by_end ON token (expires_at);
CREATE INDEX token_of_family ON token (family);
CREATE INDEX token_of_source ON token (source);

-- How a user comes in by the authorize page.
CREATE TABLE password (
  account       INTEGER PRIMARY KEY REFERENCES account ON DELETE CASCADE,
  hash          TEXT NOT NULL                  -- scrypt, with its parameters and salt
);

-- Somebody who logged in in a browser; the cookie's hash.
CREATE TABLE login (
  hash        TEXT PRIMARY KEY,
  account     INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  expires_at  INTEGER NOT NULL
) WITHOUT ROWID;

-- Files, folders and web links.  Ids are never used again (AUTOINCREMENT), and all three kinds share them.
CREATE TABLE item (
  id                   INTEGER PRIMARY KEY AUTOINCREMENT,
  kind                 INTEGER NOT NULL,       -- 0 folder, 1 file, 2 web link: the order of a listing
  owner                INTEGER NOT NULL REFERENCES account,
  parent               INTEGER,                -- item; NULL for a root; may name one that was purged
  path                 TEXT NOT NULL,          -- ids of the folders above, '/12/40/': what is below folder f
                                               -- is path >= f.path||f.id||'/' and < f.path||f.id||'0'
  name                 TEXT NOT NULL,
  name_key             TEXT NOT NULL,          -- models.names.name_key(name)
  extension            TEXT NOT NULL DEFAULT '', -- lower case, without the dot
  status               INTEGER NOT NULL DEFAULT 0, -- 0 active, 1 in the trash, 2 below a folder in the trash,
                                               -- 3 a root: in no listing and no search
  trash                INTEGER NOT NULL DEFAULT 0, -- item that was put in the trash and hides this; 0: none
  etag                 INTEGER NOT NULL DEFAULT 0, -- counts changes of the item itself
  created_at           INTEGER NOT NULL,       -- never changes
  modified_at          INTEGER NOT NULL,
  trashed_at           INTEGER,                -- set when status is 1
  trashed_by           INTEGER,
  purge_at             INTEGER,                -- when the sweeper removes it for good; NULL: never, or not in the trash
  content_created_at   INTEGER NOT NULL,
  content_modified_at  INTEGER NOT NULL,
  created_by           INTEGER NOT NULL REFERENCES account,
  modified_by          INTEGER NOT NULL REFERENCES account,
  size                 INTEGER NOT NULL DEFAULT 0, -- bytes; of a folder: all active files below
  version              INTEGER,                -- file: the current version
  sha1                 TEXT,                   -- file: of the current version
  version_number       INTEGER NOT NULL DEFAULT 1, -- file: counts versions
  url                  TEXT,                   -- web link
  description          TEXT NOT NULL DEFAULT '',
  tags                 TEXT NOT NULL DEFAULT '[]', -- JSON array of strings
  lock                 TEXT,                   -- file: JSON object, see service/access/locks.py; NULL: not locked
  link                 TEXT,                   -- the word in the shared link's address; NULL: not shared
  link_terms           TEXT                    -- JSON object, see service/access/shared_links.py
);
CREATE UNIQUE INDEX item_link ON item (link) WHERE link IS NOT NULL;

-- The rule that names are unique in a folder, over all three kinds.
CREATE UNIQUE INDEX item_name ON item (parent, name_key) WHERE status = 0;
-- A folder's listing; the id in it makes every order complete.
CREATE INDEX item_child ON item (parent, status, kind, name_key, id);
-- What search walks along when there is no text to find: below a folder, by creation, by change.
-- They cover the usual filters and orders, so that counting and sorting touch no row.
CREATE INDEX item_below ON item (path, status, modified_at, created_at, kind);
CREATE INDEX item_created ON item (owner, status, created_at, modified_at, kind, path);
CREATE INDEX item_modified ON item (owner, status, modified_at, created_at, kind, path);
CREATE INDEX item_trashed ON item (owner, trashed_at) WHERE status = 1;
-- Folders alone, for a first crawl that takes them before the files.
CREATE INDEX folder_modified ON item (owner, status, modified_at, created_at) WHERE kind = 0;

-- Every content a file has had; the one that item.version names is the current one.
CREATE TABLE version (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  sha1        TEXT NOT NULL,
  size        INTEGER NOT NULL,
  name        TEXT NOT NULL,                   -- the file's name when this was current
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL REFERENCES account,
  trashed_at  INTEGER,                         -- set: in the trash, listed but not to be downloaded
  trashed_by  INTEGER,                         -- user, as long as it is there
  restored_at  INTEGER,                        -- when it was last taken out of the trash
  restored_by  INTEGER,
  renamed     INTEGER NOT NULL DEFAULT 0       -- 1: with it the file got another name
);
CREATE INDEX version_of_file ON version (file, id);
CREATE INDEX version_blob ON version (sha1);
CREATE INDEX version_made ON version (created_by, created_at);

-- Metadata: templates, and their instances on files and folders.
CREATE TABLE metadata_template (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid          TEXT NOT NULL UNIQUE,          -- the id on the wire
  enterprise    INTEGER REFERENCES enterprise, -- NULL: scope global
  key           TEXT NOT NULL,
  display_name  TEXT NOT NULL,
  hidden        INTEGER NOT NULL DEFAULT 0,
  copies        INTEGER NOT NULL DEFAULT 0,    -- 1: a copy of an item has its instance too
  fields        TEXT NOT NULL DEFAULT '[]',    -- JSON array of the fields as they are on the wire
  version       INTEGER NOT NULL DEFAULT 0     -- counts changes of the fields
);
CREATE UNIQUE INDEX template_key ON metadata_template (coalesce(enterprise, 0), lower(key));
-- The one template that takes any key; everybody has it.
INSERT INTO metadata_template (uuid, enterprise, key, display_name)
  VALUES ('00000000-0000-4000-8000-000000000001', NULL, 'properties', 'Properties');
-- What programs found in a file (metadata/skill_cards.py).
INSERT INTO metadata_template (uuid, enterprise, key, display_name)
  VALUES ('00000000-0000-4000-8000-000000000002', NULL, 'boxSkillsCards', 'Skill cards');

CREATE TABLE metadata_instance (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid          TEXT NOT NULL UNIQUE,          -- the id on the wire
  item          INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  template      INTEGER NOT NULL REFERENCES metadata_template ON DELETE CASCADE,
  data          TEXT NOT NULL,                 -- JSON object: key to value; dates as models.metadata writes them
  version       INTEGER NOT NULL DEFAULT 0,    -- counts changes
  type_version  INTEGER NOT NULL,              -- metadata_template.version when it was made or changed
  UNIQUE (item, template)
);
CREATE INDEX metadata_instance_of ON metadata_instance (template, item);

-- Legal holds.  What they cover is found when it is asked (protection.py), by the assignments that stand here;
-- a version that was moved out of a held folder is written down, so that moving frees nothing.
CREATE TABLE legal_hold_policy (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise         INTEGER NOT NULL REFERENCES enterprise,
  name               TEXT NOT NULL,
  name_key           TEXT NOT NULL,            -- models.names.name_key(name)
  description        TEXT NOT NULL DEFAULT '',
  release_notes      TEXT NOT NULL DEFAULT '',
  is_ongoing         INTEGER NOT NULL,
  filter_started_at  INTEGER,                  -- of what a user made or owns: versions from here on
  filter_ended_at    INTEGER,                  -- up to here
  created_by         INTEGER NOT NULL REFERENCES account,
  created_at         INTEGER NOT NULL,
  modified_at        INTEGER NOT NULL,
  deleted_at         INTEGER                   -- from then on it is releasing, soon after released
);
CREATE UNIQUE INDEX legal_hold_name ON legal_hold_policy (enterprise, name_key) WHERE deleted_at IS NULL;

CREATE TABLE legal_hold_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  policy       INTEGER NOT NULL REFERENCES legal_hold_policy,
  type         TEXT NOT NULL,                  -- file, file_version, folder, user, ownership, interactions
  target       INTEGER NOT NULL,               -- id of that
  assigned_by  INTEGER NOT NULL REFERENCES account,
  assigned_at  INTEGER NOT NULL,
  deleted_at   INTEGER
);
CREATE UNIQUE INDEX legal_hold_target ON legal_hold_assignment (policy, type, target) WHERE deleted_at IS NULL;

CREATE TABLE legal_hold_kept (
  assignment  INTEGER NOT NULL REFERENCES legal_hold_assignment ON DELETE CASCADE,
  version     INTEGER NOT NULL REFERENCES version ON DELETE CASCADE,
  PRIMARY KEY (assignment, version)
) WITHOUT ROWID;
CREATE INDEX legal_hold_kept_version ON legal_hold_kept (version);

-- Retention, in the same way.
CREATE TABLE retention_policy (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise          INTEGER NOT NULL REFERENCES enterprise,
  name                TEXT NOT NULL,
  description         TEXT NOT NULL DEFAULT '',
  days                INTEGER,                 -- NULL: indefinite
  disposition_action  TEXT NOT NULL,           -- permanently_delete, remove_retention
  is_modifiable       INTEGER NOT NULL,
  details             TEXT NOT NULL DEFAULT '{}', -- JSON object: the fields that nothing here looks at
  created_by          INTEGER NOT NULL REFERENCES account,
  created_at          INTEGER NOT NULL,
  modified_at         INTEGER NOT NULL,
  retired_at          INTEGER,                 -- covers no version made after that
  UNIQUE (enterprise, name)
);

CREATE TABLE retention_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  policy       INTEGER NOT NULL REFERENCES retention_policy ON DELETE CASCADE,
  type         TEXT NOT NULL,                  -- folder, enterprise, metadata_template
  target       INTEGER NOT NULL,               -- id of that
  filters      TEXT NOT NULL DEFAULT '[]',     -- JSON array of {field, value, key, text}: ids as they were sent,
                                               -- and what they stand for in an instance
  start_field  TEXT,                           -- id of a date field; NULL: the day of the upload
  start_key    TEXT,                           -- its key in an instance
  assigned_by  INTEGER NOT NULL REFERENCES account,
  assigned_at  INTEGER NOT NULL,
  UNIQUE (policy, type, target, filters)
);

CREATE TABLE retention_kept (
  assignment  INTEGER NOT NULL REFERENCES retention_assignment ON DELETE CASCADE,
  version     INTEGER NOT NULL REFERENCES version ON DELETE CASCADE,
  PRIMARY KEY (assignment, version)
) WITHOUT ROWID;
CREATE INDEX retention_kept_version ON retention_kept (version);

CREATE TRIGGER version_added AFTER INSERT ON version BEGIN
  UPDATE account SET space_used = space_used + NEW.size WHERE id = (SELECT owner FROM item WHERE id = NEW.file);
END;
-- BEFORE the item's row goes: afterwards its owner could not be found.
CREATE TRIGGER item_purged BEFORE DELETE ON item BEGIN
  UPDATE account SET space_used = space_used - (SELECT coalesce(sum(size), 0) FROM version WHERE file = OLD.id)
    WHERE id = OLD.owner;
  DELETE FROM document WHERE id = OLD.id;
END;

-- An upload in parts that was begun.  The row goes when the file is there or the upload is given up; one
-- that expired stays for a while, without its parts, to say so.
CREATE TABLE upload_session (
  id          TEXT PRIMARY KEY,
  account     INTEGER NOT NULL REFERENCES account,
  folder      INTEGER,                         -- item: where the new file goes, 0: the root; NULL: a new version
  file        INTEGER,                         -- item: the file that gets a new version; NULL: a new file
  name        TEXT,                            -- of the new file, or the new name with the version
  size        INTEGER NOT NULL,                -- bytes, of the whole file
  part_size   INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  committed   INTEGER NOT NULL DEFAULT 0       -- 1: it has become a file; kept so that its abort has an answer
) WITHOUT ROWID;
CREATE INDEX upload_session_by_end ON upload_session (expires_at);

-- What has arrived of it.  The bytes are in sessions/<session>/<file>, on disk before the row.
CREATE TABLE upload_part (
  session  TEXT NOT NULL REFERENCES upload_session ON DELETE CASCADE,
  start    INTEGER NOT NULL,
  id       TEXT NOT NULL,
  size     INTEGER NOT NULL,
  sha1     TEXT NOT NULL,
  file     TEXT NOT NULL,
  PRIMARY KEY (session, start)
) WITHOUT ROWID;

-- What happened, for three weeks, in the stream of each user that sees the item (see events.py).
CREATE TABLE event (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- the position in the stream
  account     INTEGER NOT NULL,                -- whose stream this is
  type        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL,                -- user
  source      TEXT NOT NULL,                   -- JSON: the item as it was after the event
  details     TEXT NOT NULL DEFAULT '{}'       -- JSON: what there is to say besides
);
CREATE INDEX event_of_user ON event (account, id);

-- What search matches words against, one row an item.  Names, descriptions and tags follow the item by
-- trigger; file_content is written by uploads (the beginning of text files).
CREATE TABLE document (
  id            INTEGER PRIMARY KEY,           -- item
  name          TEXT NOT NULL,
  description   TEXT NOT NULL,
  file_content  TEXT NOT NULL DEFAULT '',
  comments      TEXT NOT NULL DEFAULT '',
  tags          TEXT NOT NULL
);
CREATE VIRTUAL TABLE word USING fts5 (
  name, description, file_content, comments, tags,
  content = 'document', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TRIGGER item_made AFTER INSERT ON item WHEN NEW.parent IS NOT NULL BEGIN
  INSERT INTO document (id, name, description, tags) VALUES (NEW.id, NEW.name, NEW.description, NEW.tags);
END;
CREATE TRIGGER item_said AFTER UPDATE OF name, description, tags ON item BEGIN
  UPDATE document SET name = NEW.name, description = NEW.description, tags = NEW.tags WHERE id = NEW.id;
END;
CREATE TRIGGER document_made AFTER INSERT ON document BEGIN
  INSERT INTO word (rowid, name, description, file_content, comments, tags)
    VALUES (NEW.id, NEW.name, NEW.description, NEW.file_content, NEW.comments, NEW.tags);
END;
CREATE TRIGGER document_gone AFTER DELETE ON document BEGIN
  INSERT INTO word (word, rowid, name, description, file_content, comments, tags)
    VALUES ('delete', OLD.id, OLD.name, OLD.description, OLD.file_content, OLD.comments, OLD.tags);
END;
CREATE TRIGGER document_said AFTER UPDATE ON document BEGIN
  INSERT INTO word (word, rowid, name, description, file_content, comments, tags)
    VALUES ('delete', OLD.id, OLD.name, OLD.description, OLD.file_content, OLD.comments, OLD.tags);
  INSERT INTO word (rowid, name, description, file_content, comments, tags)
    VALUES (NEW.id, NEW.name, NEW.description, NEW.file_content, NEW.comments, NEW.tags);
END;

-- Ids of different things begin in different places, so that one taken for another is noticed.  Anonymous
-- actors have the user id 2 on the wire, roots the item id 0, the trash 1.
INSERT INTO sqlite_sequence (name, seq) VALUES ('account', 2000), ('item', 100000), ('version', 500000),
  ('exemption', 700000), ('legal_hold_policy', 710000), ('legal_hold_assignment', 720000),
  ('retention_policy', 730000), ('retention_assignment', 740000),
  ('event', 1000000);

-- What the sweeper looks for; each of these is small, since few items are in such a state.
CREATE INDEX item_purge ON item (purge_at, id) WHERE purge_at IS NOT NULL;
CREATE INDEX item_locked ON item (id) WHERE lock IS NOT NULL;
CREATE INDEX version_trashed ON version (trashed_at) WHERE trashed_at IS NOT NULL;

-- Contents that lost their last version: their bytes go with the next pass of the sweeper.
CREATE TABLE orphan (
  sha1  TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TRIGGER version_orphaned AFTER DELETE ON version
  WHEN NOT EXISTS (SELECT 1 FROM version WHERE sha1 = OLD.sha1) BEGIN
  INSERT OR IGNORE INTO orphan VALUES (OLD.sha1);
END;

-- A version that goes while its file stays; with the file, item_purged has counted it already.
CREATE TRIGGER version_removed AFTER DELETE ON version BEGIN
  UPDATE account SET space_used = space_used - OLD.size WHERE id = (SELECT owner FROM item WHERE id = OLD.file);
END;
-- Users who are invited together.
CREATE TABLE user_group (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  name         TEXT NOT NULL,
  name_key     TEXT NOT NULL,                  -- models.names.name_key(name)
  invited_by   TEXT NOT NULL,                  -- admins_only, admins_and_members, all_managed_users
  viewed_by    TEXT NOT NULL,                  -- the same words: who is told its members
  details      TEXT NOT NULL DEFAULT '{}',     -- JSON object: the fields that nothing here looks at
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, name_key)
);
CREATE TABLE membership (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  user_group   INTEGER NOT NULL REFERENCES user_group ON DELETE CASCADE,
  account      INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  role         TEXT NOT NULL,                  -- member, admin
  permissions  TEXT NOT NULL DEFAULT '{}',     -- JSON object: what an admin of the group may do; asked by nobody
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (user_group, account)
);
CREATE INDEX membership_of_user ON membership (account, user_group);

-- Who may see and do what with items of others: collaborations, and what folders say about inviting.
INSERT INTO sqlite_sequence (name, seq) VALUES ('collaboration', 750000), ('allowlist', 760000),
  ('user_group', 780000), ('membership', 790000);

CREATE TABLE collaboration (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  item           INTEGER NOT NULL REFERENCES item ON DELETE CASCADE, -- a file, or a folder with all below
  enterprise     INTEGER NOT NULL REFERENCES enterprise, -- the owner's
  account        INTEGER REFERENCES account,   -- who was invited; NULL: nobody has that address yet, or a group
  user_group     INTEGER REFERENCES user_group, -- the group that was invited, for all its members
  email          TEXT,                         -- by which address, in lower case; NULL: by id
  role           TEXT NOT NULL,                -- see service/access/roles.py
  status         TEXT NOT NULL,                -- accepted, pending, rejected
  can_view_path  INTEGER NOT NULL DEFAULT 0,   -- 1: the names of the folders above are shown
  access_only    INTEGER NOT NULL DEFAULT 0,   -- 1: it is in no listing of the user's root
  expires_at     INTEGER,                      -- from then on it is none; the row goes a little later
  created_by     INTEGER NOT NULL REFERENCES account,
  created_at     INTEGER NOT NULL,
  modified_at    INTEGER NOT NULL,
  acknowledged_at  INTEGER                     -- when it was accepted or rejected
);
CREATE UNIQUE INDEX collaboration_once ON collaboration (item, coalesce(account, email));
CREATE INDEX collaboration_of_user ON collaboration (account, status);
CREATE INDEX collaboration_by_email ON collaboration (email) WHERE account IS NULL;
CREATE UNIQUE INDEX collaboration_of_group ON collaboration (user_group, item) WHERE user_group IS NOT NULL;
CREATE INDEX collaboration_by_end ON collaboration (expires_at) WHERE expires_at IS NOT NULL;

-- Whoever gets the address that was invited has the invitation.
CREATE TRIGGER user_made AFTER INSERT ON account WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.id WHERE account IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_renamed AFTER UPDATE OF login ON account WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.id WHERE account IS NULL AND email = lower(NEW.login);
END;
-- Enterprise 0 is that of deleted users.
CREATE TRIGGER user_left AFTER UPDATE OF enterprise ON account BEGIN
  DELETE FROM collaboration WHERE account = NEW.id AND NEW.enterprise = 0;
  DELETE FROM membership WHERE account = NEW.id AND user_group IN (
    SELECT id FROM user_group WHERE enterprise != NEW.enterprise);
  DELETE FROM collaborator WHERE account = NEW.id AND enterprise = NEW.enterprise;
  INSERT OR IGNORE INTO collaborator SELECT DISTINCT enterprise, account FROM collaboration
    WHERE account = NEW.id AND status = 'accepted' AND enterprise != NEW.enterprise;
END;
-- Who collaborates from elsewhere is known to the enterprise for as long as that lasts.
CREATE TRIGGER collaboration_made AFTER INSERT ON collaboration
  WHEN NEW.status = 'accepted' AND NEW.enterprise != (SELECT enterprise FROM account WHERE id = NEW.account) BEGIN
  INSERT OR IGNORE INTO collaborator VALUES (NEW.enterprise, NEW.account);
END;
CREATE TRIGGER collaboration_changed AFTER UPDATE OF status ON collaboration
  WHEN NEW.status = 'accepted' AND NEW.enterprise != (SELECT enterprise FROM account WHERE id = NEW.account) BEGIN
  INSERT OR IGNORE INTO collaborator VALUES (NEW.enterprise, NEW.account);
END;
CREATE TRIGGER collaboration_ended AFTER DELETE ON collaboration WHEN OLD.status = 'accepted' BEGIN
  DELETE FROM collaborator WHERE enterprise = OLD.enterprise AND account = OLD.account AND NOT EXISTS (
    SELECT 1 FROM collaboration WHERE enterprise = OLD.enterprise AND account = OLD.account AND status = 'accepted');
END;

-- What a folder says about collaborating on it and on all below; one without a row says the usual.
CREATE TABLE folder_terms (
  folder             INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  restricted         INTEGER NOT NULL DEFAULT 0, -- 1: with users of the enterprise alone
  non_owners_invite  INTEGER NOT NULL DEFAULT 1, -- 0: editors invite nobody
  non_owners_view    INTEGER NOT NULL DEFAULT 1  -- 0: editors and lesser roles do not see who collaborates
);

-- Domains with whose users the enterprise collaborates; none: with all.
CREATE TABLE allowlist (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  domain      TEXT NOT NULL,                   -- in lower case
  direction   TEXT NOT NULL,                   -- inbound: theirs here, outbound: ours there, both
  created_at  INTEGER NOT NULL,
  UNIQUE (enterprise, domain)
);

-- What a user came to by shared links of others, for the search that includes that.
CREATE TABLE recent_link (
  account  INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  item     INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  link     TEXT NOT NULL,                      -- item.link as it was then
  used_at  INTEGER NOT NULL,
  PRIMARY KEY (account, item)
) WITHOUT ROWID;

-- What happened in an enterprise, for a year: the administrators' streams.
CREATE TABLE admin_event (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- the position in the stream
  enterprise  INTEGER NOT NULL,
  type        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL,                -- user
  source      TEXT NOT NULL,                   -- JSON
  details     TEXT NOT NULL DEFAULT '{}'       -- JSON
);
CREATE INDEX admin_event_of ON admin_event (enterprise, id);
INSERT INTO sqlite_sequence (name, seq) VALUES ('admin_event', 2000000);

-- The trash of who puts things of others there.
CREATE INDEX item_trashed_by ON item (trashed_by) WHERE status = 1;
-- What the worker reads and makes of contents (see indexing.py).
-- Files whose content search does not know yet, or only the beginning of.
CREATE TABLE unindexed (
  item  INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE
);

-- What is made of a content, once for all files and versions that have it; the bytes are in
-- renditions/ab/<sha1>.<name>, on disk before the row says so.
CREATE TABLE rendition (
  sha1      TEXT NOT NULL,
  name      TEXT NOT NULL,                     -- extracted_text, jpg_thumb_320x320: see representations.py
  state     INTEGER NOT NULL DEFAULT 0,        -- 0 asked for, 1 there, 2 not to be had of this content
  asked_at  INTEGER NOT NULL,
  PRIMARY KEY (sha1, name)
) WITHOUT ROWID;
CREATE INDEX rendition_asked ON rendition (asked_at) WHERE state = 0;

-- Items that were given a watermark; what is below a folder has it too.
CREATE TABLE watermark (
  item         INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL
);

-- What users have among their favorites.
CREATE TABLE favorite (
  account      INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  item         INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  added_at     INTEGER NOT NULL,
  PRIMARY KEY (account, item)
) WITHOUT ROWID;
CREATE INDEX favorite_of_item ON favorite (item);

-- Folders that are kept from being moved, or from being deleted.
CREATE TABLE folder_lock (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  folder       INTEGER NOT NULL UNIQUE REFERENCES item ON DELETE CASCADE,
  created_by   INTEGER NOT NULL,               -- user
  created_at   INTEGER NOT NULL,
  moves        INTEGER NOT NULL,               -- 1: it stays where it is, by its name
  deletes      INTEGER NOT NULL                -- 1: it is not deleted, nor a folder above it
);

-- What was said of a file.
CREATE TABLE comment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  item         INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  reply_to     INTEGER REFERENCES comment ON DELETE CASCADE, -- comment; NULL: it is about the file itself
  message      TEXT NOT NULL,                  -- with people as @[id:name]
  created_by   INTEGER NOT NULL REFERENCES account,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL
);
CREATE INDEX comment_of_item ON comment (item, id);
CREATE INDEX comment_replies ON comment (reply_to);
CREATE INDEX comment_written ON comment (created_by, created_at);
CREATE TRIGGER comment_made AFTER INSERT ON comment BEGIN
  UPDATE document SET comments = (SELECT group_concat(message, char(10)) FROM comment WHERE item = NEW.item)
    WHERE id = NEW.item;
END;
CREATE TRIGGER comment_said AFTER UPDATE OF message ON comment BEGIN
  UPDATE document SET comments = (SELECT group_concat(message, char(10)) FROM comment WHERE item = NEW.item)
    WHERE id = NEW.item;
END;
CREATE TRIGGER comment_gone AFTER DELETE ON comment BEGIN
  UPDATE document SET comments =
    coalesce((SELECT group_concat(message, char(10)) FROM comment WHERE item = OLD.item), '')
    WHERE id = OLD.item;
END;

-- Folders that are marked to be synchronised by a desktop client, or in part.
CREATE TABLE sync_mark (
  item   INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  state  TEXT NOT NULL                         -- synced, partially_synced
);

-- How often what a shared link leads to was fetched and looked at.
CREATE TABLE link_use (
  item       INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  downloads  INTEGER NOT NULL DEFAULT 0,
  previews   INTEGER NOT NULL DEFAULT 0
);

INSERT INTO sqlite_sequence (name, seq) VALUES ('comment', 770000);

-- What is to be done with a file, and by whom.
CREATE TABLE task (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  action      TEXT NOT NULL,                   -- review, complete
  rule        TEXT NOT NULL,                   -- all_assignees, any_assignee
  message     TEXT NOT NULL,
  due_at      INTEGER,
  created_by  INTEGER NOT NULL REFERENCES account,
  created_at  INTEGER NOT NULL
);
CREATE INDEX task_of_file ON task (file, id);
CREATE TABLE task_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  task         INTEGER NOT NULL REFERENCES task ON DELETE CASCADE,
  account      INTEGER NOT NULL REFERENCES account, -- whose it is
  message      TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT 'incomplete', -- incomplete, completed, approved, rejected
  assigned_by  INTEGER NOT NULL REFERENCES account,
  assigned_at  INTEGER NOT NULL,
  resolved_at  INTEGER,                        -- NULL: it is incomplete
  UNIQUE (task, account)
);

-- Folders whose metadata of a template everything below gets, too.
CREATE TABLE cascade_policy (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid        TEXT NOT NULL UNIQUE,            -- the id on the wire
  folder      INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  template    INTEGER NOT NULL REFERENCES metadata_template ON DELETE CASCADE,
  created_by  INTEGER NOT NULL REFERENCES account,
  created_at  INTEGER NOT NULL,
  UNIQUE (folder, template)
);
-- Whatever comes below such a folder has its metadata from then on, unless it has some of that template.
CREATE TRIGGER item_under_policy AFTER INSERT ON item
  WHEN NEW.kind < 2 AND EXISTS (SELECT 1 FROM cascade_policy) BEGIN
  INSERT OR IGNORE INTO metadata_instance (uuid, item, template, data, type_version)
    SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
        || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
      NEW.id, m.template, m.data, m.type_version
    FROM cascade_policy AS p JOIN metadata_instance AS m ON m.item = p.folder AND m.template = p.template
    WHERE p.folder IN (SELECT value FROM json_each('[' || replace(trim(NEW.path, '/'), '/', ',') || ']'))
    ORDER BY instr(NEW.path, '/' || p.folder || '/') DESC;
END;
CREATE TRIGGER item_came_under_policy AFTER UPDATE OF path ON item
  WHEN NEW.kind < 2 AND OLD.path != NEW.path AND EXISTS (SELECT 1 FROM cascade_policy) BEGIN
  INSERT OR IGNORE INTO metadata_instance (uuid, item, template, data, type_version)
    SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
        || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
      NEW.id, m.template, m.data, m.type_version
    FROM cascade_policy AS p JOIN metadata_instance AS m ON m.item = p.folder AND m.template = p.template
    WHERE p.folder IN (SELECT value FROM json_each('[' || replace(trim(NEW.path, '/'), '/', ',') || ']'))
    ORDER BY instr(NEW.path, '/' || p.folder || '/') DESC;
END;

-- Addresses that are told what happens to an item and below it.
CREATE TABLE webhook (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  target      INTEGER NOT NULL REFERENCES item ON DELETE CASCADE, -- a file, or a folder with all below
  address     TEXT NOT NULL,
  triggers    TEXT NOT NULL,                   -- JSON array of words: see events/webhook_triggers.py
  created_by  INTEGER NOT NULL REFERENCES account,
  created_at  INTEGER NOT NULL,
  UNIQUE (target, app, created_by)
);
CREATE INDEX webhook_of_app ON webhook (app, created_by, id);
-- What they have not been told yet, in the words that they will be told.
CREATE TABLE webhook_delivery (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  address     TEXT NOT NULL,
  body        TEXT NOT NULL,                   -- JSON
  attempts    INTEGER NOT NULL DEFAULT 0,      -- how often it was tried in vain
  due_at      INTEGER NOT NULL,                -- when it is tried next
  created_at  INTEGER NOT NULL
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (due_at);
-- What an application's deliveries are signed with; both, so that either can be renewed.
CREATE TABLE signature_key (
  app        TEXT PRIMARY KEY REFERENCES app ON DELETE CASCADE,
  main       TEXT NOT NULL,
  secondary  TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO sqlite_sequence (name, seq) VALUES ('task', 800000), ('task_assignment', 810000), ('webhook', 820000);

-- Further addresses that a user is known by: for logging in and for invitations.
CREATE TABLE email_alias (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  account     INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  email       TEXT NOT NULL UNIQUE             -- in lower case
);
CREATE INDEX email_alias_of_user ON email_alias (account);
CREATE TRIGGER email_alias_made AFTER INSERT ON email_alias BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.account WHERE account IS NULL AND email = NEW.email;
END;

-- Pictures of users.
CREATE TABLE avatar (
  account     INTEGER PRIMARY KEY REFERENCES account ON DELETE CASCADE,
  media_type  TEXT NOT NULL,                   -- image/png, image/jpeg
  picture     BLOB NOT NULL                    -- as it was sent, 1 MiB at most
);

-- Users of other enterprises who were asked to come into this one.
CREATE TABLE invite (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  account      INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  invited_by   INTEGER NOT NULL REFERENCES account,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, account)
);

-- What users are to agree to, one text for each kind of user, and who has.
CREATE TABLE terms_of_service (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  kind         TEXT NOT NULL,                  -- managed, external
  status       TEXT NOT NULL,                  -- enabled, disabled
  text         TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, kind)
);
CREATE TABLE terms_status (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  terms        INTEGER NOT NULL REFERENCES terms_of_service ON DELETE CASCADE,
  account      INTEGER NOT NULL REFERENCES account ON DELETE CASCADE,
  is_accepted  INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (terms, account)
);

-- The storage policies of an enterprise beside this service's own.
CREATE TABLE storage_policy (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  name        TEXT NOT NULL,
  UNIQUE (enterprise, name)
);
-- Users who were given a storage policy of their own; all others have the enterprise's.
CREATE TABLE storage_assignment (
  account  INTEGER PRIMARY KEY REFERENCES account ON DELETE CASCADE,
  policy   INTEGER REFERENCES storage_policy   -- NULL: this service's own
);
-- Versions that are retained for longer than their policies say.
CREATE TABLE retention_extended (
  version  INTEGER PRIMARY KEY REFERENCES version ON DELETE CASCADE,
  until    INTEGER NOT NULL
);
INSERT INTO sqlite_sequence (name, seq) VALUES ('email_alias', 800000), ('invite', 810000),
  ('terms_of_service', 820000), ('terms_status', 830000), ('storage_policy', 840000);

-- Contents in a bucket that lost their last version (see s3_blobs.py); a folder has them moved aside instead.
CREATE TABLE aside (
  sha1   TEXT PRIMARY KEY,
  state  INTEGER NOT NULL,                     -- 0 it can be brought back, 1 it is being removed, 2 it is gone
  since  INTEGER NOT NULL
) WITHOUT ROWID;

-- What was asked of the service for an enterprise in an hour, and what its users had stored at the end of it.
CREATE TABLE usage (
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  hour        INTEGER NOT NULL,                -- hours since 1970
  requests    INTEGER NOT NULL,
  space_used  INTEGER NOT NULL,                -- bytes of all versions
  PRIMARY KEY (enterprise, hour)
) WITHOUT ROWID;
