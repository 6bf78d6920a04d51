CREATE TABLE enterprise (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  tracking_codes  TEXT NOT NULL DEFAULT '[]',  -- JSON array: the names that users may have codes for; [] is off
  trash_days  INTEGER DEFAULT 30               -- for so long is trash kept; NULL: until somebody empties it
);
CREATE TABLE "account" (
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
CREATE TABLE collaborator (
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  account        INTEGER NOT NULL REFERENCES "account",
  PRIMARY KEY (enterprise, account)
) WITHOUT ROWID;
CREATE TABLE exemption (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  account         INTEGER NOT NULL REFERENCES "account",
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, account)
);
CREATE TABLE app (
  client_id      TEXT PRIMARY KEY,
  secret_hash    TEXT NOT NULL,                -- SHA-256 of the secret, in hexadecimal
  name           TEXT NOT NULL,
  enterprise     INTEGER NOT NULL REFERENCES enterprise,
  service_user   INTEGER NOT NULL REFERENCES "account", -- for whom an enterprise token speaks
  scopes         TEXT NOT NULL DEFAULT 'root_readwrite', -- with spaces between: what its tokens are good for
  grants         TEXT NOT NULL DEFAULT 'client_credentials', -- with spaces between: how it may get tokens, of
                                               -- authorization_code, client_credentials, jwt_bearer
  redirect_uris  TEXT NOT NULL DEFAULT '[]'    -- JSON array: where codes may be sent
) WITHOUT ROWID;
CREATE TABLE app_key (
  app  TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  kid  TEXT NOT NULL,
  pem  TEXT NOT NULL,                          -- the public key
  PRIMARY KEY (app, kid)
) WITHOUT ROWID;
CREATE TABLE assertion (
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  jti         TEXT NOT NULL,
  expires_at  INTEGER NOT NULL,                -- afterwards it is refused for its age
  PRIMARY KEY (app, jti)
) WITHOUT ROWID;
CREATE TABLE family (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  account        INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  scopes      TEXT,                            -- as of a token
  expires_at  INTEGER NOT NULL                 -- when its newest refresh token does
);
CREATE TABLE refresh_token (
  hash    TEXT PRIMARY KEY,                    -- SHA-256, in hexadecimal; so are all hashes here
  family  INTEGER NOT NULL REFERENCES family ON DELETE CASCADE,
  used    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE code (
  hash          TEXT PRIMARY KEY,
  app           TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  account          INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  redirect_uri  TEXT NOT NULL,                 -- where the code was sent
  scopes        TEXT,                          -- as of a token
  challenge     TEXT,                          -- PKCE, S256; NULL: none was given
  expires_at    INTEGER NOT NULL,
  used          INTEGER NOT NULL DEFAULT 0,
  family        INTEGER REFERENCES family ON DELETE SET NULL -- what came of it
) WITHOUT ROWID;
CREATE TABLE token (
  hash        TEXT PRIMARY KEY,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  account        INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
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
CREATE TABLE password (
  account          INTEGER PRIMARY KEY REFERENCES "account" ON DELETE CASCADE,
  hash          TEXT NOT NULL                  -- scrypt, with its parameters and salt
);
CREATE TABLE login (
  hash        TEXT PRIMARY KEY,
  account        INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  expires_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE item (
  id                   INTEGER PRIMARY KEY AUTOINCREMENT,
  kind                 INTEGER NOT NULL,       -- 0 folder, 1 file, 2 web link: the order of a listing
  owner                INTEGER NOT NULL REFERENCES "account",
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
  created_by           INTEGER NOT NULL REFERENCES "account",
  modified_by          INTEGER NOT NULL REFERENCES "account",
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
CREATE TABLE version (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  sha1        TEXT NOT NULL,
  size        INTEGER NOT NULL,
  name        TEXT NOT NULL,                   -- the file's name when this was current
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL REFERENCES "account",
  trashed_at  INTEGER,                         -- set: in the trash, listed but not to be downloaded
  trashed_by  INTEGER,                         -- user, as long as it is there
  restored_at  INTEGER,                        -- when it was last taken out of the trash
  restored_by  INTEGER,
  renamed     INTEGER NOT NULL DEFAULT 0       -- 1: with it the file got another name
);
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
  created_by         INTEGER NOT NULL REFERENCES "account",
  created_at         INTEGER NOT NULL,
  modified_at        INTEGER NOT NULL,
  deleted_at         INTEGER                   -- from then on it is releasing, soon after released
);
CREATE TABLE legal_hold_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  policy       INTEGER NOT NULL REFERENCES legal_hold_policy,
  type         TEXT NOT NULL,                  -- file, file_version, folder, user, ownership, interactions
  target       INTEGER NOT NULL,               -- id of that
  assigned_by  INTEGER NOT NULL REFERENCES "account",
  assigned_at  INTEGER NOT NULL,
  deleted_at   INTEGER
);
CREATE TABLE legal_hold_kept (
  assignment  INTEGER NOT NULL REFERENCES legal_hold_assignment ON DELETE CASCADE,
  version     INTEGER NOT NULL REFERENCES version ON DELETE CASCADE,
  PRIMARY KEY (assignment, version)
) WITHOUT ROWID;
CREATE TABLE retention_policy (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise          INTEGER NOT NULL REFERENCES enterprise,
  name                TEXT NOT NULL,
  description         TEXT NOT NULL DEFAULT '',
  days                INTEGER,                 -- NULL: indefinite
  disposition_action  TEXT NOT NULL,           -- permanently_delete, remove_retention
  is_modifiable       INTEGER NOT NULL,
  details             TEXT NOT NULL DEFAULT '{}', -- JSON object: the fields that nothing here looks at
  created_by          INTEGER NOT NULL REFERENCES "account",
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
  assigned_by  INTEGER NOT NULL REFERENCES "account",
  assigned_at  INTEGER NOT NULL,
  UNIQUE (policy, type, target, filters)
);
CREATE TABLE retention_kept (
  assignment  INTEGER NOT NULL REFERENCES retention_assignment ON DELETE CASCADE,
  version     INTEGER NOT NULL REFERENCES version ON DELETE CASCADE,
  PRIMARY KEY (assignment, version)
) WITHOUT ROWID;
CREATE TABLE upload_session (
  id          TEXT PRIMARY KEY,
  account        INTEGER NOT NULL REFERENCES "account",
  folder      INTEGER,                         -- item: where the new file goes, 0: the root; NULL: a new version
  file        INTEGER,                         -- item: the file that gets a new version; NULL: a new file
  name        TEXT,                            -- of the new file, or the new name with the version
  size        INTEGER NOT NULL,                -- bytes, of the whole file
  part_size   INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  committed   INTEGER NOT NULL DEFAULT 0       -- 1: it has become a file; kept so that its abort has an answer
) WITHOUT ROWID;
CREATE TABLE upload_part (
  session  TEXT NOT NULL REFERENCES upload_session ON DELETE CASCADE,
  start   INTEGER NOT NULL,
  id       TEXT NOT NULL,
  size     INTEGER NOT NULL,
  sha1     TEXT NOT NULL,
  file     TEXT NOT NULL,
  PRIMARY KEY (session, start)
) WITHOUT ROWID;
CREATE TABLE event (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- the position in the stream
  account        INTEGER NOT NULL,                -- whose stream this is
  type        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL,                -- user
  source      TEXT NOT NULL,                   -- JSON: the item as it was after the event
  details     TEXT NOT NULL DEFAULT '{}'       -- JSON: what there is to say besides
);
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
CREATE TABLE orphan (
  sha1  TEXT PRIMARY KEY
) WITHOUT ROWID;
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
  account         INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  role         TEXT NOT NULL,                  -- member, admin
  permissions  TEXT NOT NULL DEFAULT '{}',     -- JSON object: what an admin of the group may do; asked by nobody
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (user_group, account)
);
CREATE TABLE collaboration (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  item           INTEGER NOT NULL REFERENCES item ON DELETE CASCADE, -- a file, or a folder with all below
  enterprise     INTEGER NOT NULL REFERENCES enterprise, -- the owner's
  account           INTEGER REFERENCES "account",      -- who was invited; NULL: nobody has that address yet, or a group
  user_group     INTEGER REFERENCES user_group, -- the group that was invited, for all its members
  email          TEXT,                         -- by which address, in lower case; NULL: by id
  role           TEXT NOT NULL,                -- see service/access/roles.py
  status         TEXT NOT NULL,                -- accepted, pending, rejected
  can_view_path  INTEGER NOT NULL DEFAULT 0,   -- 1: the names of the folders above are shown
  access_only    INTEGER NOT NULL DEFAULT 0,   -- 1: it is in no listing of the user's root
  expires_at     INTEGER,                      -- from then on it is none; the row goes a little later
  created_by     INTEGER NOT NULL REFERENCES "account",
  created_at     INTEGER NOT NULL,
  modified_at    INTEGER NOT NULL,
  acknowledged_at  INTEGER                     -- when it was accepted or rejected
);
CREATE TABLE folder_terms (
  folder             INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  restricted         INTEGER NOT NULL DEFAULT 0, -- 1: with users of the enterprise alone
  non_owners_invite  INTEGER NOT NULL DEFAULT 1, -- 0: editors invite nobody
  non_owners_view    INTEGER NOT NULL DEFAULT 1  -- 0: editors and lesser roles do not see who collaborates
);
CREATE TABLE allowlist (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  domain      TEXT NOT NULL,                   -- in lower case
  direction   TEXT NOT NULL,                   -- inbound: theirs here, outbound: ours there, both
  created_at  INTEGER NOT NULL,
  UNIQUE (enterprise, domain)
);
CREATE TABLE recent_link (
  account     INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  item     INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  link     TEXT NOT NULL,                      -- item.link as it was then
  used_at  INTEGER NOT NULL,
  PRIMARY KEY (account, item)
) WITHOUT ROWID;
CREATE TABLE admin_event (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- the position in the stream
  enterprise  INTEGER NOT NULL,
  type        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL,                -- user
  source      TEXT NOT NULL,                   -- JSON
  details     TEXT NOT NULL DEFAULT '{}'       -- JSON
);
CREATE TABLE unindexed (
  item  INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE
);
CREATE TABLE rendition (
  sha1      TEXT NOT NULL,
  name      TEXT NOT NULL,                     -- extracted_text, jpg_thumb_320x320: see representations.py
  state     INTEGER NOT NULL DEFAULT 0,        -- 0 asked for, 1 there, 2 not to be had of this content
  asked_at  INTEGER NOT NULL,
  PRIMARY KEY (sha1, name)
) WITHOUT ROWID;
CREATE TABLE watermark (
  item         INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL
);
CREATE TABLE favorite (
  account         INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  item         INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  added_at     INTEGER NOT NULL,
  PRIMARY KEY (account, item)
) WITHOUT ROWID;
CREATE TABLE folder_lock (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  folder       INTEGER NOT NULL UNIQUE REFERENCES item ON DELETE CASCADE,
  created_by   INTEGER NOT NULL,               -- user
  created_at   INTEGER NOT NULL,
  moves        INTEGER NOT NULL,               -- 1: it stays where it is, by its name
  deletes      INTEGER NOT NULL                -- 1: it is not deleted, nor a folder above it
);
CREATE TABLE comment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  item         INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  reply_to     INTEGER REFERENCES comment ON DELETE CASCADE, -- comment; NULL: it is about the file itself
  message      TEXT NOT NULL,                  -- with people as @[id:name]
  created_by   INTEGER NOT NULL REFERENCES "account",
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL
);
CREATE TABLE sync_mark (
  item   INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  state  TEXT NOT NULL                         -- synced, partially_synced
);
CREATE TABLE link_use (
  item       INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  downloads  INTEGER NOT NULL DEFAULT 0,
  previews   INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE task (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  action      TEXT NOT NULL,                   -- review, complete
  rule        TEXT NOT NULL,                   -- all_assignees, any_assignee
  message     TEXT NOT NULL,
  due_at      INTEGER,
  created_by  INTEGER NOT NULL REFERENCES "account",
  created_at  INTEGER NOT NULL
);
CREATE TABLE task_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  task         INTEGER NOT NULL REFERENCES task ON DELETE CASCADE,
  account         INTEGER NOT NULL REFERENCES "account", -- whose it is
  message      TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT 'incomplete', -- incomplete, completed, approved, rejected
  assigned_by  INTEGER NOT NULL REFERENCES "account",
  assigned_at  INTEGER NOT NULL,
  resolved_at  INTEGER,                        -- NULL: it is incomplete
  UNIQUE (task, account)
);
CREATE TABLE cascade_policy (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid        TEXT NOT NULL UNIQUE,            -- the id on the wire
  folder      INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  template    INTEGER NOT NULL REFERENCES metadata_template ON DELETE CASCADE,
  created_by  INTEGER NOT NULL REFERENCES "account",
  created_at  INTEGER NOT NULL,
  UNIQUE (folder, template)
);
CREATE TABLE webhook (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  target      INTEGER NOT NULL REFERENCES item ON DELETE CASCADE, -- a file, or a folder with all below
  address     TEXT NOT NULL,
  triggers    TEXT NOT NULL,                   -- JSON array of words: see events/webhook_triggers.py
  created_by  INTEGER NOT NULL REFERENCES "account",
  created_at  INTEGER NOT NULL,
  UNIQUE (target, app, created_by)
);
CREATE TABLE webhook_delivery (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  address     TEXT NOT NULL,
  body        TEXT NOT NULL,                   -- JSON
  attempts    INTEGER NOT NULL DEFAULT 0,      -- how often it was tried in vain
  due_at      INTEGER NOT NULL,                -- when it is tried next
  created_at  INTEGER NOT NULL
);
CREATE TABLE signature_key (
  app        TEXT PRIMARY KEY REFERENCES app ON DELETE CASCADE,
  main       TEXT NOT NULL,
  secondary  TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE email_alias (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  account        INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  email       TEXT NOT NULL UNIQUE             -- in lower case
);
CREATE TABLE avatar (
  account        INTEGER PRIMARY KEY REFERENCES "account" ON DELETE CASCADE,
  media_type  TEXT NOT NULL,                   -- image/png, image/jpeg
  picture     BLOB NOT NULL                    -- as it was sent, 1 MiB at most
);
CREATE TABLE invite (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  account         INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  invited_by   INTEGER NOT NULL REFERENCES "account",
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, account)
);
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
  account         INTEGER NOT NULL REFERENCES "account" ON DELETE CASCADE,
  is_accepted  INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (terms, account)
);
CREATE TABLE storage_policy (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  name        TEXT NOT NULL,
  UNIQUE (enterprise, name)
);
CREATE TABLE storage_assignment (
  account    INTEGER PRIMARY KEY REFERENCES "account" ON DELETE CASCADE,
  policy  INTEGER REFERENCES storage_policy    -- NULL: this service's own
);
CREATE TABLE retention_extended (
  version  INTEGER PRIMARY KEY REFERENCES version ON DELETE CASCADE,
  until    INTEGER NOT NULL
);
CREATE TABLE aside (
  sha1   TEXT PRIMARY KEY,
  state  INTEGER NOT NULL,                     -- 0 it can be brought back, 1 it is being removed, 2 it is gone
  since  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "enterprise" VALUES(1,'Example Enterprise',1795445264114893,'[]',30);
INSERT INTO "enterprise" VALUES(2,'Other Enterprise',1795445264258477,'[]',NULL);
INSERT INTO "account" VALUES(2001,1,'Ada Example','ada@example.com','admin','active',107374182400,5267,53687091200,1,'{}',1795445264114893,1795445264114893,100001);
INSERT INTO "account" VALUES(2002,1,'Ben Sample','ben@example.com','user','active',107374182400,0,53687091200,0,'{}',1795445264114893,1795445264114893,100002);
INSERT INTO "account" VALUES(2003,1,'Cleo Specimen','cleo@example.com','user','active',107374182400,0,53687091200,0,'{}',1795445264114893,1795445264114893,100003);
INSERT INTO "account" VALUES(2004,1,'cmsfs application','AppUser_2004_e8053967dd1d0449@app-users.invalid','user','active',107374182400,0,53687091200,0,'{}',1795445264114893,1795445264114893,100004);
INSERT INTO "account" VALUES(2005,2,'Dora Else','dora@example.net','admin','active',-1,0,1000000,0,'{}',1795445264258477,1795445264258477,NULL);
INSERT INTO "collaborator" VALUES(1,2005);
INSERT INTO "exemption" VALUES(700001,1,2003,1795445264223410,1795445264223410);
INSERT INTO "app" VALUES('sample-b110abe2f61a2f61','4f942b8e3f06883a4e91d71d6ac48292aa86221669120b025aaf52a33c00c2d3','cmsfs',1,2004,'root_readonly root_readwrite manage_managed_users manage_app_users manage_groups manage_webhook manage_enterprise_properties manage_data_retention manage_legal_holds enterprise_content sign_requests.readwrite ai.readwrite manage_triggers','authorization_code client_credentials jwt_bearer','["http://127.0.0.1/", "http://127.0.0.1/callback", "http://localhost/", "http://localhost/callback", "http://[::1]/", "http://[::1]/callback"]');
INSERT INTO "family" VALUES(1,'sample-b110abe2f61a2f61',2002,NULL,901795445264258477);
INSERT INTO "refresh_token" VALUES('1111111111111111111111111111111111111111111111111111111111111111',1,0);
INSERT INTO "code" VALUES('2222222222222222222222222222222222222222222222222222222222222222','sample-b110abe2f61a2f61',2002,'http://127.0.0.1/',NULL,NULL,901795445264258477,1,1);
INSERT INTO "token" VALUES('3333333333333333333333333333333333333333333333333333333333333333','sample-b110abe2f61a2f61',2002,1795445264258477,901795445264258477,NULL,NULL,1,NULL,NULL,NULL);
INSERT INTO "password" VALUES(2001,'scrypt$15,8,1$rzaFK5cVqu2FB8Yv6S/mRA==$+rzwid+qBCjYRGtl3Ps21RkcRYLZ6TPTXTtWvPB6FCl1ffe7IPuw1beCz4DFgyjQ+dAFUaR2KHmSy1rrRXSx6Q==');
INSERT INTO "password" VALUES(2002,'scrypt$15,8,1$kVQPLfM1ZhRz94TxmAOpoQ==$53trq4UnDVDSya1TpxsTuZhpc8ipUBHqSy8w6hcammZY3rC441Yu2RcwqxfmG5qLXraU55NDg0NHf8Y4JYcqFQ==');
INSERT INTO "password" VALUES(2003,'scrypt$15,8,1$sOLBzfa5tcRcLAym4yNC2g==$aIWTlkFa+YdrD/OKBADz0A4oxyDclSUIWIyiu9xpQRYJFdokS12lUoTcgVhjFHRNwr+Np+iMYWpE/Gi7/xGGpQ==');
INSERT INTO "login" VALUES('4444444444444444444444444444444444444444444444444444444444444444',2002,901795445264258477);
INSERT INTO "item" VALUES(100001,0,2001,NULL,'/','All Files','','',3,0,0,1795445264114893,1795445264114893,NULL,NULL,NULL,1795445264114893,1795445264114893,2001,2001,5212,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100002,0,2002,NULL,'/','All Files','','',3,0,0,1795445264114893,1795445264114893,NULL,NULL,NULL,1795445264114893,1795445264114893,2002,2002,0,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100003,0,2003,NULL,'/','All Files','','',3,0,0,1795445264114893,1795445264114893,NULL,NULL,NULL,1795445264114893,1795445264114893,2003,2003,0,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100004,0,2004,NULL,'/','All Files','','',3,0,0,1795445264114893,1795445264114893,NULL,NULL,NULL,1795445264114893,1795445264114893,2004,2004,0,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100005,1,2001,100001,'/100001/','Welcome.md','welcome.md','md',0,0,0,1795445264115948,1795445264115948,NULL,NULL,NULL,1795445264115948,1795445264115948,2001,2001,868,500001,'02ed719b12d5235475004e11b52bb956710a3ea8',1,NULL,'Start here','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100006,0,2001,100001,'/100001/','Getting started','getting started','',0,0,0,1795445264122269,1795445264122269,NULL,NULL,NULL,1795445264122269,1795445264122269,2001,2001,865,NULL,NULL,1,NULL,'Five minutes with the drive','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100007,1,2001,100006,'/100001/100006/','1 First steps.md','1 first steps.md','md',0,0,0,1795445264122728,1795445264122728,NULL,NULL,NULL,1795445264122728,1795445264122728,2001,2001,260,500002,'17dec7c33d53b520a3365a7ea389e8a68374d5d4',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100008,1,2001,100006,'/100001/100006/','2 Without a network.md','2 without a network.md','md',0,0,0,1795445264123152,1795445264123152,NULL,NULL,NULL,1795445264123152,1795445264123152,2001,2001,330,500003,'04c50f500a85a429d9642e3906da254c56f1a9dc',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100009,1,2001,100006,'/100001/100006/','3 Finding things.md','3 finding things.md','md',0,0,0,1795445264123513,1795445264123513,NULL,NULL,NULL,1795445264123513,1795445264123513,2001,2001,275,500004,'a9b7ca3cb77c0eb14af51741ba30ddb3df00eb40',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100010,0,2001,100001,'/100001/','Projects','projects','',0,0,0,1795445264123854,1795445264123854,NULL,NULL,NULL,1795445264123854,1795445264123854,2001,2001,1894,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100011,0,2001,100010,'/100001/100010/','Harbour Bridge','harbour bridge','',0,0,0,1795445264124069,1795445264124069,NULL,NULL,NULL,1795445264124069,1795445264124069,2001,2001,1490,NULL,NULL,1,NULL,'Renewal of the footbridge','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100012,1,2001,100011,'/100001/100010/100011/','Plan.md','plan.md','md',0,0,0,1795445264124268,1795445264124268,NULL,NULL,NULL,1795445264124268,1795445264124268,2001,2001,386,500005,'37577c593a16be029daa31ccd1aaa2cbb7d0531c',1,NULL,'Phases and who does them','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100013,1,2001,100011,'/100001/100010/100011/','Budget 2026.csv','budget 2026.csv','csv',0,0,0,1795445264124622,1795445264124622,NULL,NULL,NULL,1795445264124622,1795445264124622,2001,2001,278,500006,'af75f4ea83c7e2d76db278ac5629fe3f83173084',1,NULL,'Planned and spent','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100014,0,2001,100011,'/100001/100010/100011/','Minutes','minutes','',0,0,0,1795445264124937,1795445264124937,NULL,NULL,NULL,1795445264124937,1795445264124937,2001,2001,499,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100015,1,2001,100014,'/100001/100010/100011/100014/','Minutes 2026-03-12.md','minutes 2026-03-12.md','md',0,0,0,1795445264125269,1795445264125269,NULL,NULL,NULL,1795445264125269,1795445264125269,2001,2001,274,500007,'5db2d383777395581430a7cb92333c01eba967e9',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100016,1,2001,100014,'/100001/100010/100011/100014/','Minutes 2026-04-09.md','minutes 2026-04-09.md','md',0,0,0,1795445264125568,1795445264125568,NULL,NULL,NULL,1795445264125568,1795445264125568,2001,2001,225,500008,'2f0e055916e8247e402dc30d7f6e6f1b3aac6e9c',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100017,0,2001,100011,'/100001/100010/100011/','Permits','permits','',0,0,0,1795445264125858,1795445264125858,NULL,NULL,NULL,1795445264125858,1795445264125858,2001,2001,327,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100018,1,2001,100017,'/100001/100010/100011/100017/','Noise report.txt','noise report.txt','txt',0,0,0,1795445264182848,1795445264182848,NULL,NULL,NULL,1795445264182848,1795445264182848,2001,2001,212,500009,'74d9c05bdaf4d3636c972ed87520440cdda07536',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100019,1,2001,100017,'/100001/100010/100011/100017/','Checklist.txt','checklist.txt','txt',0,0,0,1795445264183430,1795445264183430,NULL,NULL,NULL,1795445264183430,1795445264183430,2001,2001,115,500010,'00b89aeec6fa8cd3cb64167622c0d085d60eac20',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100020,1,2001,100011,'/100001/100010/100011/','First idea.md','first idea.md','md',1,100020,1,1795445264183809,1795445264185596,1795445264185596,2001,1798037264185596,1795445264183809,1795445264183809,2001,2001,55,500011,'6ec43214367717618ef1cd69b18abc9c37233472',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100021,0,2001,100010,'/100001/100010/','Roof Garden','roof garden','',0,0,0,1795445264188353,1795445264188353,NULL,NULL,NULL,1795445264188353,1795445264188353,2001,2001,404,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100022,1,2001,100021,'/100001/100010/100021/','Plan.md','plan.md','md',0,0,0,1795445264188603,1795445264188603,NULL,NULL,NULL,1795445264188603,1795445264188603,2001,2001,195,500012,'f5acd14f7b4bc9a8dbeca1dc4e1bac581eb09483',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100023,1,2001,100021,'/100001/100010/100021/','Plants.csv','plants.csv','csv',0,0,0,1795445264188933,1795445264188933,NULL,NULL,NULL,1795445264188933,1795445264188933,2001,2001,209,500013,'696704bb94d9fffc4e8b8212f2b3718c51d6d218',1,NULL,'What grows where','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100024,0,2001,100001,'/100001/','Reports','reports','',0,0,0,1795445264189392,1795445264189392,NULL,NULL,NULL,1795445264189392,1795445264189392,2001,2001,559,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100025,0,2001,100024,'/100001/100024/','2025','2025','',0,0,0,1795445264189587,1795445264189587,NULL,NULL,NULL,1795445264189587,1795445264189587,2001,2001,266,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100026,1,2001,100025,'/100001/100024/100025/','Year 2025.md','year 2025.md','md',0,0,0,1795445264189775,1795445264189775,NULL,NULL,NULL,1795445264189775,1795445264189775,2001,2001,266,500014,'d54e28b061c465696e70b72d7b120c96e003451b',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100027,0,2001,100024,'/100001/100024/','2026','2026','',0,0,0,1795445264202458,1795445264202458,NULL,NULL,NULL,1795445264202458,1795445264202458,2001,2001,293,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100028,1,2001,100027,'/100001/100024/100027/','Visitors Q1.csv','visitors q1.csv','csv',0,0,0,1795445264202941,1795445264202941,NULL,NULL,NULL,1795445264202941,1795445264202941,2001,2001,98,500015,'20e68b95c3eee4a3c2b096ae3941fccb138b905f',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100029,1,2001,100027,'/100001/100024/100027/','Visitors Q2.csv','visitors q2.csv','csv',0,0,0,1795445264203383,1795445264203383,NULL,NULL,NULL,1795445264203383,1795445264203383,2001,2001,94,500016,'10a8d98250db39658f3b1a08436afd8ae808c5e4',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100030,1,2001,100027,'/100001/100024/100027/','Visitors Q3.csv','visitors q3.csv','csv',0,0,0,1795445264203720,1795445264203720,NULL,NULL,NULL,1795445264203720,1795445264203720,2001,2001,101,500017,'35c96787423a2e09d31fcb942cc96e953295a9a9',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100031,0,2001,100001,'/100001/','Office','office','',0,0,0,1795445264204013,1795445264204013,NULL,NULL,NULL,1795445264204013,1795445264204013,2001,2001,649,NULL,NULL,1,NULL,'What everybody needs now and then','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100032,1,2001,100031,'/100001/100031/','Handbook.md','handbook.md','md',0,0,0,1795445264204201,1795445264204201,NULL,NULL,NULL,1795445264204201,1795445264204201,2001,2001,294,500018,'8ba968c5cd4f09a2e2ed45533e87637ecd95333d',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100033,1,2001,100031,'/100001/100031/','Travel expenses.md','travel expenses.md','md',0,0,0,1795445264204498,1795445264204498,NULL,NULL,NULL,1795445264204498,1795445264204498,2001,2001,173,500019,'211547d3d5bdc6c0846feffa7e133c3d4e5702ea',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100034,1,2001,100031,'/100001/100031/','Contacts.csv','contacts.csv','csv',0,0,0,1795445264204861,1795445264204861,NULL,NULL,NULL,1795445264204861,1795445264204861,2001,2001,182,500020,'69b1d9940f4225307117373b9b576bd3ce26fb0f',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100035,0,2001,100001,'/100001/','Personal','personal','',0,0,0,1795445264205122,1795445264205122,NULL,NULL,NULL,1795445264205122,1795445264205122,2001,2001,377,NULL,NULL,1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100036,1,2001,100035,'/100001/100035/','Bread.md','bread.md','md',0,0,0,1795445264205320,1795445264205320,NULL,NULL,NULL,1795445264205320,1795445264205320,2001,2001,191,500021,'18a2ed353afddd3c58d69476b44767288d2967f2',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100037,1,2001,100035,'/100001/100035/','Haiku.txt','haiku.txt','txt',0,0,0,1795445264205602,1795445264205602,NULL,NULL,NULL,1795445264205602,1795445264205602,2001,2001,78,500022,'6056984bc525ce0dc079d7ef14865f07937619aa',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100038,1,2001,100035,'/100001/100035/','Reading list.txt','reading list.txt','txt',0,0,0,1795445264205861,1795445264205861,NULL,NULL,NULL,1795445264205861,1795445264205861,2001,2001,108,500023,'999cb924bb11934bf3d760280ad2627d97667739',1,NULL,'','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100039,0,2001,100001,'/100001/','Links','links','',0,0,0,1795445264222564,1795445264222564,NULL,NULL,NULL,1795445264222564,1795445264222564,2001,2001,0,NULL,NULL,1,NULL,'Addresses worth keeping','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100040,2,2001,100039,'/100001/100039/','Tide table','tide table','',0,0,0,1795445264222947,1795445264222947,NULL,NULL,NULL,1795445264222947,1795445264222947,2001,2001,0,NULL,NULL,1,'https://tides.example.com/harbour','High water, day by day','[]',NULL,NULL,NULL);
INSERT INTO "item" VALUES(100041,2,2001,100039,'/100001/100039/','Ferry timetable','ferry timetable','',0,0,0,1795445264223189,1795445264223189,NULL,NULL,NULL,1795445264223189,1795445264223189,2001,2001,0,NULL,NULL,1,'https://ferry.example.com/timetable?line=2','','[]',NULL,NULL,NULL);
INSERT INTO "version" VALUES(500001,100005,'02ed719b12d5235475004e11b52bb956710a3ea8',868,'Welcome.md',1795445264115948,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500002,100007,'17dec7c33d53b520a3365a7ea389e8a68374d5d4',260,'1 First steps.md',1795445264122728,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500003,100008,'04c50f500a85a429d9642e3906da254c56f1a9dc',330,'2 Without a network.md',1795445264123152,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500004,100009,'a9b7ca3cb77c0eb14af51741ba30ddb3df00eb40',275,'3 Finding things.md',1795445264123513,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500005,100012,'37577c593a16be029daa31ccd1aaa2cbb7d0531c',386,'Plan.md',1795445264124268,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500006,100013,'af75f4ea83c7e2d76db278ac5629fe3f83173084',278,'Budget 2026.csv',1795445264124622,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500007,100015,'5db2d383777395581430a7cb92333c01eba967e9',274,'Minutes 2026-03-12.md',1795445264125269,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500008,100016,'2f0e055916e8247e402dc30d7f6e6f1b3aac6e9c',225,'Minutes 2026-04-09.md',1795445264125568,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500009,100018,'74d9c05bdaf4d3636c972ed87520440cdda07536',212,'Noise report.txt',1795445264182848,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500010,100019,'00b89aeec6fa8cd3cb64167622c0d085d60eac20',115,'Checklist.txt',1795445264183430,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500011,100020,'6ec43214367717618ef1cd69b18abc9c37233472',55,'First idea.md',1795445264183809,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500012,100022,'f5acd14f7b4bc9a8dbeca1dc4e1bac581eb09483',195,'Plan.md',1795445264188603,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500013,100023,'696704bb94d9fffc4e8b8212f2b3718c51d6d218',209,'Plants.csv',1795445264188933,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500014,100026,'d54e28b061c465696e70b72d7b120c96e003451b',266,'Year 2025.md',1795445264189775,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500015,100028,'20e68b95c3eee4a3c2b096ae3941fccb138b905f',98,'Visitors Q1.csv',1795445264202941,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500016,100029,'10a8d98250db39658f3b1a08436afd8ae808c5e4',94,'Visitors Q2.csv',1795445264203383,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500017,100030,'35c96787423a2e09d31fcb942cc96e953295a9a9',101,'Visitors Q3.csv',1795445264203720,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500018,100032,'8ba968c5cd4f09a2e2ed45533e87637ecd95333d',294,'Handbook.md',1795445264204201,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500019,100033,'211547d3d5bdc6c0846feffa7e133c3d4e5702ea',173,'Travel expenses.md',1795445264204498,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500020,100034,'69b1d9940f4225307117373b9b576bd3ce26fb0f',182,'Contacts.csv',1795445264204861,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500021,100036,'18a2ed353afddd3c58d69476b44767288d2967f2',191,'Bread.md',1795445264205320,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500022,100037,'6056984bc525ce0dc079d7ef14865f07937619aa',78,'Haiku.txt',1795445264205602,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "version" VALUES(500023,100038,'999cb924bb11934bf3d760280ad2627d97667739',108,'Reading list.txt',1795445264205861,2001,NULL,NULL,NULL,NULL,0);
INSERT INTO "metadata_template" VALUES(1,'00000000-0000-4000-8000-000000000001',NULL,'properties','Properties',0,0,'[]',0);
INSERT INTO "metadata_template" VALUES(2,'00000000-0000-4000-8000-000000000002',NULL,'boxSkillsCards','Skill cards',0,0,'[]',0);
INSERT INTO "metadata_template" VALUES(3,'54f88df8-e890-4bdb-b0c3-2da0f06ef8be',1,'project','Project',0,0,'[{"type": "string", "key": "lead", "displayName": "Lead", "hidden": false, "id": "45c1a243-f002-47de-ad2a-8565eeb1b728"}, {"type": "float", "key": "budget", "displayName": "Budget", "hidden": false, "id": "0692dedc-b014-4ace-8c05-2f98820ff2bb"}, {"type": "date", "key": "due", "displayName": "Due", "hidden": false, "id": "74b7e11b-4cd3-4db3-bccb-0fef596f1b6d"}, {"type": "enum", "key": "phase", "displayName": "Phase", "hidden": false, "options": [{"key": "plan", "id": "3824a65c-7f7b-4c8a-ab9d-3801085bb286"}, {"key": "build", "id": "8d872ce1-ceff-4c33-a9d9-486f54dadf76"}], "id": "82389a6a-a2af-4d2c-a206-9a26df4240cc"}]',0);
INSERT INTO "metadata_instance" VALUES(1,'2be6de28-39eb-4fe7-9c6f-180263d2b347',100012,3,'{"lead": "Ada Example", "budget": 480000, "due": "2026-10-30T00:00:00.000Z", "phase": "build"}',0,0);
INSERT INTO "legal_hold_policy" VALUES(710001,1,'Harbour Bridge permits','harbour bridge permits','Asked for by the harbour office','',1,NULL,NULL,2001,1795445264223410,1795445264223410,NULL);
INSERT INTO "legal_hold_assignment" VALUES(720001,710001,'folder',100017,2001,1795445264223410,NULL);
INSERT INTO "retention_policy" VALUES(730001,1,'Yearly reports','Ten years',3650,'remove_retention',1,'{}',2001,1795445264223410,1795445264223410,NULL);
INSERT INTO "retention_assignment" VALUES(740001,730001,'folder',100025,'[]',NULL,NULL,2001,1795445264223410);
INSERT INTO "upload_session" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',2001,0,NULL,'Film.bin',20000000,8388608,1795445264258477,901795445264258477,0);
INSERT INTO "upload_part" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',0,'bbbbbbbb',8388608,'5555555555555555555555555555555555555555','one');
INSERT INTO "upload_part" VALUES('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',8388608,'cccccccc',8388608,'6666666666666666666666666666666666666666','two');
INSERT INTO "event" VALUES(1000001,2001,'ITEM_UPLOAD',1795445264115948,2001,'{"type":"file","id":"100005","sequence_id":"0","etag":"0","sha1":"02ed719b12d5235475004e11b52bb956710a3ea8","name":"Welcome.md","file_version":{"type":"file_version","id":"500001","sha1":"02ed719b12d5235475004e11b52bb956710a3ea8"},"description":"Start here","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.115948+00:00","modified_at":"2026-11-23T14:47:44.115948+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":868,"content_created_at":"2026-11-23T14:47:44.115948+00:00","content_modified_at":"2026-11-23T14:47:44.115948+00:00"}','{}');
INSERT INTO "event" VALUES(1000002,2001,'ITEM_CREATE',1795445264122269,2001,'{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started","description":"Five minutes with the drive","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.122269+00:00","modified_at":"2026-11-23T14:47:44.122269+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.122269+00:00","content_modified_at":"2026-11-23T14:47:44.122269+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000003,2001,'ITEM_UPLOAD',1795445264122728,2001,'{"type":"file","id":"100007","sequence_id":"0","etag":"0","sha1":"17dec7c33d53b520a3365a7ea389e8a68374d5d4","name":"1 First steps.md","file_version":{"type":"file_version","id":"500002","sha1":"17dec7c33d53b520a3365a7ea389e8a68374d5d4"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"}]},"created_at":"2026-11-23T14:47:44.122728+00:00","modified_at":"2026-11-23T14:47:44.122728+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"},"item_status":"active","size":260,"content_created_at":"2026-11-23T14:47:44.122728+00:00","content_modified_at":"2026-11-23T14:47:44.122728+00:00"}','{}');
INSERT INTO "event" VALUES(1000004,2001,'ITEM_UPLOAD',1795445264123152,2001,'{"type":"file","id":"100008","sequence_id":"0","etag":"0","sha1":"04c50f500a85a429d9642e3906da254c56f1a9dc","name":"2 Without a network.md","file_version":{"type":"file_version","id":"500003","sha1":"04c50f500a85a429d9642e3906da254c56f1a9dc"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"}]},"created_at":"2026-11-23T14:47:44.123152+00:00","modified_at":"2026-11-23T14:47:44.123152+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"},"item_status":"active","size":330,"content_created_at":"2026-11-23T14:47:44.123152+00:00","content_modified_at":"2026-11-23T14:47:44.123152+00:00"}','{}');
INSERT INTO "event" VALUES(1000005,2001,'ITEM_UPLOAD',1795445264123513,2001,'{"type":"file","id":"100009","sequence_id":"0","etag":"0","sha1":"a9b7ca3cb77c0eb14af51741ba30ddb3df00eb40","name":"3 Finding things.md","file_version":{"type":"file_version","id":"500004","sha1":"a9b7ca3cb77c0eb14af51741ba30ddb3df00eb40"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"}]},"created_at":"2026-11-23T14:47:44.123513+00:00","modified_at":"2026-11-23T14:47:44.123513+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"},"item_status":"active","size":275,"content_created_at":"2026-11-23T14:47:44.123513+00:00","content_modified_at":"2026-11-23T14:47:44.123513+00:00"}','{}');
INSERT INTO "event" VALUES(1000006,2001,'ITEM_CREATE',1795445264123854,2001,'{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects","description":"","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.123854+00:00","modified_at":"2026-11-23T14:47:44.123854+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.123854+00:00","content_modified_at":"2026-11-23T14:47:44.123854+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000007,2001,'ITEM_CREATE',1795445264124069,2001,'{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge","description":"Renewal of the footbridge","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"}]},"created_at":"2026-11-23T14:47:44.124069+00:00","modified_at":"2026-11-23T14:47:44.124069+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.124069+00:00","content_modified_at":"2026-11-23T14:47:44.124069+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000008,2001,'ITEM_UPLOAD',1795445264124268,2001,'{"type":"file","id":"100012","sequence_id":"0","etag":"0","sha1":"37577c593a16be029daa31ccd1aaa2cbb7d0531c","name":"Plan.md","file_version":{"type":"file_version","id":"500005","sha1":"37577c593a16be029daa31ccd1aaa2cbb7d0531c"},"description":"Phases and who does them","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"}]},"created_at":"2026-11-23T14:47:44.124268+00:00","modified_at":"2026-11-23T14:47:44.124268+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"item_status":"active","size":386,"content_created_at":"2026-11-23T14:47:44.124268+00:00","content_modified_at":"2026-11-23T14:47:44.124268+00:00"}','{}');
INSERT INTO "event" VALUES(1000009,2001,'ITEM_UPLOAD',1795445264124622,2001,'{"type":"file","id":"100013","sequence_id":"0","etag":"0","sha1":"af75f4ea83c7e2d76db278ac5629fe3f83173084","name":"Budget 2026.csv","file_version":{"type":"file_version","id":"500006","sha1":"af75f4ea83c7e2d76db278ac5629fe3f83173084"},"description":"Planned and spent","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"}]},"created_at":"2026-11-23T14:47:44.124622+00:00","modified_at":"2026-11-23T14:47:44.124622+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"item_status":"active","size":278,"content_created_at":"2026-11-23T14:47:44.124622+00:00","content_modified_at":"2026-11-23T14:47:44.124622+00:00"}','{}');
INSERT INTO "event" VALUES(1000010,2001,'ITEM_CREATE',1795445264124937,2001,'{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes","description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"}]},"created_at":"2026-11-23T14:47:44.124937+00:00","modified_at":"2026-11-23T14:47:44.124937+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.124937+00:00","content_modified_at":"2026-11-23T14:47:44.124937+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000011,2001,'ITEM_UPLOAD',1795445264125269,2001,'{"type":"file","id":"100015","sequence_id":"0","etag":"0","sha1":"5db2d383777395581430a7cb92333c01eba967e9","name":"Minutes 2026-03-12.md","file_version":{"type":"file_version","id":"500007","sha1":"5db2d383777395581430a7cb92333c01eba967e9"},"description":"","path_collection":{"total_count":4,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes"}]},"created_at":"2026-11-23T14:47:44.125269+00:00","modified_at":"2026-11-23T14:47:44.125269+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes"},"item_status":"active","size":274,"content_created_at":"2026-11-23T14:47:44.125269+00:00","content_modified_at":"2026-11-23T14:47:44.125269+00:00"}','{}');
INSERT INTO "event" VALUES(1000012,2001,'ITEM_UPLOAD',1795445264125568,2001,'{"type":"file","id":"100016","sequence_id":"0","etag":"0","sha1":"2f0e055916e8247e402dc30d7f6e6f1b3aac6e9c","name":"Minutes 2026-04-09.md","file_version":{"type":"file_version","id":"500008","sha1":"2f0e055916e8247e402dc30d7f6e6f1b3aac6e9c"},"description":"","path_collection":{"total_count":4,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes"}]},"created_at":"2026-11-23T14:47:44.125568+00:00","modified_at":"2026-11-23T14:47:44.125568+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes"},"item_status":"active","size":225,"content_created_at":"2026-11-23T14:47:44.125568+00:00","content_modified_at":"2026-11-23T14:47:44.125568+00:00"}','{}');
INSERT INTO "event" VALUES(1000013,2001,'ITEM_CREATE',1795445264125858,2001,'{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits","description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"}]},"created_at":"2026-11-23T14:47:44.125858+00:00","modified_at":"2026-11-23T14:47:44.125858+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.125858+00:00","content_modified_at":"2026-11-23T14:47:44.125858+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000014,2001,'ITEM_UPLOAD',1795445264182848,2001,'{"type":"file","id":"100018","sequence_id":"0","etag":"0","sha1":"74d9c05bdaf4d3636c972ed87520440cdda07536","name":"Noise report.txt","file_version":{"type":"file_version","id":"500009","sha1":"74d9c05bdaf4d3636c972ed87520440cdda07536"},"description":"","path_collection":{"total_count":4,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits"}]},"created_at":"2026-11-23T14:47:44.182848+00:00","modified_at":"2026-11-23T14:47:44.182848+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits"},"item_status":"active","size":212,"content_created_at":"2026-11-23T14:47:44.182848+00:00","content_modified_at":"2026-11-23T14:47:44.182848+00:00"}','{}');
INSERT INTO "event" VALUES(1000015,2001,'ITEM_UPLOAD',1795445264183430,2001,'{"type":"file","id":"100019","sequence_id":"0","etag":"0","sha1":"00b89aeec6fa8cd3cb64167622c0d085d60eac20","name":"Checklist.txt","file_version":{"type":"file_version","id":"500010","sha1":"00b89aeec6fa8cd3cb64167622c0d085d60eac20"},"description":"","path_collection":{"total_count":4,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits"}]},"created_at":"2026-11-23T14:47:44.183430+00:00","modified_at":"2026-11-23T14:47:44.183430+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits"},"item_status":"active","size":115,"content_created_at":"2026-11-23T14:47:44.183430+00:00","content_modified_at":"2026-11-23T14:47:44.183430+00:00"}','{}');
INSERT INTO "event" VALUES(1000016,2001,'ITEM_UPLOAD',1795445264183809,2001,'{"type":"file","id":"100020","sequence_id":"0","etag":"0","sha1":"6ec43214367717618ef1cd69b18abc9c37233472","name":"First idea.md","file_version":{"type":"file_version","id":"500011","sha1":"6ec43214367717618ef1cd69b18abc9c37233472"},"description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"}]},"created_at":"2026-11-23T14:47:44.183809+00:00","modified_at":"2026-11-23T14:47:44.183809+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"item_status":"active","size":55,"content_created_at":"2026-11-23T14:47:44.183809+00:00","content_modified_at":"2026-11-23T14:47:44.183809+00:00"}','{}');
INSERT INTO "event" VALUES(1000017,2001,'ITEM_TRASH',1795445264185596,2001,'{"type":"file","id":"100020","sequence_id":"1","etag":"1","sha1":"6ec43214367717618ef1cd69b18abc9c37233472","name":"First idea.md","file_version":{"type":"file_version","id":"500011","sha1":"6ec43214367717618ef1cd69b18abc9c37233472"},"description":"","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"1","sequence_id":null,"etag":null,"name":"Trash"}]},"created_at":"2026-11-23T14:47:44.183809+00:00","modified_at":"2026-11-23T14:47:44.185596+00:00","trashed_at":"2026-11-23T14:47:44.185596+00:00","purged_at":"2026-12-23T14:47:44.185596+00:00","created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"item_status":"trashed","size":55,"content_created_at":"2026-11-23T14:47:44.183809+00:00","content_modified_at":"2026-11-23T14:47:44.183809+00:00"}','{}');
INSERT INTO "event" VALUES(1000018,2001,'ITEM_CREATE',1795445264188353,2001,'{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden","description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"}]},"created_at":"2026-11-23T14:47:44.188353+00:00","modified_at":"2026-11-23T14:47:44.188353+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.188353+00:00","content_modified_at":"2026-11-23T14:47:44.188353+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000019,2001,'ITEM_UPLOAD',1795445264188603,2001,'{"type":"file","id":"100022","sequence_id":"0","etag":"0","sha1":"f5acd14f7b4bc9a8dbeca1dc4e1bac581eb09483","name":"Plan.md","file_version":{"type":"file_version","id":"500012","sha1":"f5acd14f7b4bc9a8dbeca1dc4e1bac581eb09483"},"description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden"}]},"created_at":"2026-11-23T14:47:44.188603+00:00","modified_at":"2026-11-23T14:47:44.188603+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden"},"item_status":"active","size":195,"content_created_at":"2026-11-23T14:47:44.188603+00:00","content_modified_at":"2026-11-23T14:47:44.188603+00:00"}','{}');
INSERT INTO "event" VALUES(1000020,2001,'ITEM_UPLOAD',1795445264188933,2001,'{"type":"file","id":"100023","sequence_id":"0","etag":"0","sha1":"696704bb94d9fffc4e8b8212f2b3718c51d6d218","name":"Plants.csv","file_version":{"type":"file_version","id":"500013","sha1":"696704bb94d9fffc4e8b8212f2b3718c51d6d218"},"description":"What grows where","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden"}]},"created_at":"2026-11-23T14:47:44.188933+00:00","modified_at":"2026-11-23T14:47:44.188933+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden"},"item_status":"active","size":209,"content_created_at":"2026-11-23T14:47:44.188933+00:00","content_modified_at":"2026-11-23T14:47:44.188933+00:00"}','{}');
INSERT INTO "event" VALUES(1000021,2001,'ITEM_CREATE',1795445264189392,2001,'{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports","description":"","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.189392+00:00","modified_at":"2026-11-23T14:47:44.189392+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.189392+00:00","content_modified_at":"2026-11-23T14:47:44.189392+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000022,2001,'ITEM_CREATE',1795445264189587,2001,'{"type":"folder","id":"100025","sequence_id":"0","etag":"0","name":"2025","description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"}]},"created_at":"2026-11-23T14:47:44.189587+00:00","modified_at":"2026-11-23T14:47:44.189587+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.189587+00:00","content_modified_at":"2026-11-23T14:47:44.189587+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000023,2001,'ITEM_UPLOAD',1795445264189775,2001,'{"type":"file","id":"100026","sequence_id":"0","etag":"0","sha1":"d54e28b061c465696e70b72d7b120c96e003451b","name":"Year 2025.md","file_version":{"type":"file_version","id":"500014","sha1":"d54e28b061c465696e70b72d7b120c96e003451b"},"description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},{"type":"folder","id":"100025","sequence_id":"0","etag":"0","name":"2025"}]},"created_at":"2026-11-23T14:47:44.189775+00:00","modified_at":"2026-11-23T14:47:44.189775+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100025","sequence_id":"0","etag":"0","name":"2025"},"item_status":"active","size":266,"content_created_at":"2026-11-23T14:47:44.189775+00:00","content_modified_at":"2026-11-23T14:47:44.189775+00:00"}','{}');
INSERT INTO "event" VALUES(1000024,2001,'ITEM_CREATE',1795445264202458,2001,'{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026","description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"}]},"created_at":"2026-11-23T14:47:44.202458+00:00","modified_at":"2026-11-23T14:47:44.202458+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.202458+00:00","content_modified_at":"2026-11-23T14:47:44.202458+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000025,2001,'ITEM_UPLOAD',1795445264202941,2001,'{"type":"file","id":"100028","sequence_id":"0","etag":"0","sha1":"20e68b95c3eee4a3c2b096ae3941fccb138b905f","name":"Visitors Q1.csv","file_version":{"type":"file_version","id":"500015","sha1":"20e68b95c3eee4a3c2b096ae3941fccb138b905f"},"description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"}]},"created_at":"2026-11-23T14:47:44.202941+00:00","modified_at":"2026-11-23T14:47:44.202941+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"},"item_status":"active","size":98,"content_created_at":"2026-11-23T14:47:44.202941+00:00","content_modified_at":"2026-11-23T14:47:44.202941+00:00"}','{}');
INSERT INTO "event" VALUES(1000026,2001,'ITEM_UPLOAD',1795445264203383,2001,'{"type":"file","id":"100029","sequence_id":"0","etag":"0","sha1":"10a8d98250db39658f3b1a08436afd8ae808c5e4","name":"Visitors Q2.csv","file_version":{"type":"file_version","id":"500016","sha1":"10a8d98250db39658f3b1a08436afd8ae808c5e4"},"description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"}]},"created_at":"2026-11-23T14:47:44.203383+00:00","modified_at":"2026-11-23T14:47:44.203383+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"},"item_status":"active","size":94,"content_created_at":"2026-11-23T14:47:44.203383+00:00","content_modified_at":"2026-11-23T14:47:44.203383+00:00"}','{}');
INSERT INTO "event" VALUES(1000027,2001,'ITEM_UPLOAD',1795445264203720,2001,'{"type":"file","id":"100030","sequence_id":"0","etag":"0","sha1":"35c96787423a2e09d31fcb942cc96e953295a9a9","name":"Visitors Q3.csv","file_version":{"type":"file_version","id":"500017","sha1":"35c96787423a2e09d31fcb942cc96e953295a9a9"},"description":"","path_collection":{"total_count":3,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"}]},"created_at":"2026-11-23T14:47:44.203720+00:00","modified_at":"2026-11-23T14:47:44.203720+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"},"item_status":"active","size":101,"content_created_at":"2026-11-23T14:47:44.203720+00:00","content_modified_at":"2026-11-23T14:47:44.203720+00:00"}','{}');
INSERT INTO "event" VALUES(1000028,2001,'ITEM_CREATE',1795445264204013,2001,'{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office","description":"What everybody needs now and then","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.204013+00:00","modified_at":"2026-11-23T14:47:44.204013+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.204013+00:00","content_modified_at":"2026-11-23T14:47:44.204013+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000029,2001,'ITEM_UPLOAD',1795445264204201,2001,'{"type":"file","id":"100032","sequence_id":"0","etag":"0","sha1":"8ba968c5cd4f09a2e2ed45533e87637ecd95333d","name":"Handbook.md","file_version":{"type":"file_version","id":"500018","sha1":"8ba968c5cd4f09a2e2ed45533e87637ecd95333d"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"}]},"created_at":"2026-11-23T14:47:44.204201+00:00","modified_at":"2026-11-23T14:47:44.204201+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"},"item_status":"active","size":294,"content_created_at":"2026-11-23T14:47:44.204201+00:00","content_modified_at":"2026-11-23T14:47:44.204201+00:00"}','{}');
INSERT INTO "event" VALUES(1000030,2001,'ITEM_UPLOAD',1795445264204498,2001,'{"type":"file","id":"100033","sequence_id":"0","etag":"0","sha1":"211547d3d5bdc6c0846feffa7e133c3d4e5702ea","name":"Travel expenses.md","file_version":{"type":"file_version","id":"500019","sha1":"211547d3d5bdc6c0846feffa7e133c3d4e5702ea"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"}]},"created_at":"2026-11-23T14:47:44.204498+00:00","modified_at":"2026-11-23T14:47:44.204498+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"},"item_status":"active","size":173,"content_created_at":"2026-11-23T14:47:44.204498+00:00","content_modified_at":"2026-11-23T14:47:44.204498+00:00"}','{}');
INSERT INTO "event" VALUES(1000031,2001,'ITEM_UPLOAD',1795445264204861,2001,'{"type":"file","id":"100034","sequence_id":"0","etag":"0","sha1":"69b1d9940f4225307117373b9b576bd3ce26fb0f","name":"Contacts.csv","file_version":{"type":"file_version","id":"500020","sha1":"69b1d9940f4225307117373b9b576bd3ce26fb0f"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"}]},"created_at":"2026-11-23T14:47:44.204861+00:00","modified_at":"2026-11-23T14:47:44.204861+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"},"item_status":"active","size":182,"content_created_at":"2026-11-23T14:47:44.204861+00:00","content_modified_at":"2026-11-23T14:47:44.204861+00:00"}','{}');
INSERT INTO "event" VALUES(1000032,2001,'ITEM_CREATE',1795445264205122,2001,'{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal","description":"","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.205122+00:00","modified_at":"2026-11-23T14:47:44.205122+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.205122+00:00","content_modified_at":"2026-11-23T14:47:44.205122+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000033,2001,'ITEM_UPLOAD',1795445264205320,2001,'{"type":"file","id":"100036","sequence_id":"0","etag":"0","sha1":"18a2ed353afddd3c58d69476b44767288d2967f2","name":"Bread.md","file_version":{"type":"file_version","id":"500021","sha1":"18a2ed353afddd3c58d69476b44767288d2967f2"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"}]},"created_at":"2026-11-23T14:47:44.205320+00:00","modified_at":"2026-11-23T14:47:44.205320+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"},"item_status":"active","size":191,"content_created_at":"2026-11-23T14:47:44.205320+00:00","content_modified_at":"2026-11-23T14:47:44.205320+00:00"}','{}');
INSERT INTO "event" VALUES(1000034,2001,'ITEM_UPLOAD',1795445264205602,2001,'{"type":"file","id":"100037","sequence_id":"0","etag":"0","sha1":"6056984bc525ce0dc079d7ef14865f07937619aa","name":"Haiku.txt","file_version":{"type":"file_version","id":"500022","sha1":"6056984bc525ce0dc079d7ef14865f07937619aa"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"}]},"created_at":"2026-11-23T14:47:44.205602+00:00","modified_at":"2026-11-23T14:47:44.205602+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"},"item_status":"active","size":78,"content_created_at":"2026-11-23T14:47:44.205602+00:00","content_modified_at":"2026-11-23T14:47:44.205602+00:00"}','{}');
INSERT INTO "event" VALUES(1000035,2001,'ITEM_UPLOAD',1795445264205861,2001,'{"type":"file","id":"100038","sequence_id":"0","etag":"0","sha1":"999cb924bb11934bf3d760280ad2627d97667739","name":"Reading list.txt","file_version":{"type":"file_version","id":"500023","sha1":"999cb924bb11934bf3d760280ad2627d97667739"},"description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"}]},"created_at":"2026-11-23T14:47:44.205861+00:00","modified_at":"2026-11-23T14:47:44.205861+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"},"item_status":"active","size":108,"content_created_at":"2026-11-23T14:47:44.205861+00:00","content_modified_at":"2026-11-23T14:47:44.205861+00:00"}','{}');
INSERT INTO "event" VALUES(1000036,2001,'ITEM_CREATE',1795445264222564,2001,'{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links","description":"Addresses worth keeping","path_collection":{"total_count":1,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"}]},"created_at":"2026-11-23T14:47:44.222564+00:00","modified_at":"2026-11-23T14:47:44.222564+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"item_status":"active","size":0,"content_created_at":"2026-11-23T14:47:44.222564+00:00","content_modified_at":"2026-11-23T14:47:44.222564+00:00","folder_upload_email":null}','{}');
INSERT INTO "event" VALUES(1000037,2001,'ITEM_CREATE',1795445264222947,2001,'{"type":"web_link","id":"100040","sequence_id":"0","etag":"0","name":"Tide table","url":"https://tides.example.com/harbour","description":"High water, day by day","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links"}]},"created_at":"2026-11-23T14:47:44.222947+00:00","modified_at":"2026-11-23T14:47:44.222947+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links"},"item_status":"active"}','{}');
INSERT INTO "event" VALUES(1000038,2001,'ITEM_CREATE',1795445264223189,2001,'{"type":"web_link","id":"100041","sequence_id":"0","etag":"0","name":"Ferry timetable","url":"https://ferry.example.com/timetable?line=2","description":"","path_collection":{"total_count":2,"entries":[{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links"}]},"created_at":"2026-11-23T14:47:44.223189+00:00","modified_at":"2026-11-23T14:47:44.223189+00:00","trashed_at":null,"purged_at":null,"created_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"modified_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"},"shared_link":null,"parent":{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links"},"item_status":"active"}','{}');
INSERT INTO "document" VALUES(100005,'Welcome.md','Start here','# Welcome to your drive

What you see here is a content-management service, mounted as a folder. Everything works as on any disk:

- Open a file, change it, save it. Two seconds later the service has the new version.
- Make folders, rename, move, copy. Your programs need not know that this is not a disk.
- Delete something: it is in `.trash` and can be moved back from there.
- Look at `getfattr -d` of a file: its id, its SHA-1, its owner, whether it is uploaded.

Some places to begin:

| Where | What |
|---|---|
| `Getting started/` | Three short pages, five minutes |
| `Projects/Harbour Bridge/` | A project as offices have them: a plan, a budget, minutes |
| `Reports/2026/` | Tables to open in a spreadsheet |
| `Links/` | Web links of the service, as files that open in a browser |

Nothing here is precious: it is a sample. Break it, and see what happens.
','Seen.','[]');
INSERT INTO "document" VALUES(100006,'Getting started','Five minutes with the drive','','','[]');
INSERT INTO "document" VALUES(100007,'1 First steps.md','','# First steps

1. Save a note: `echo "hello" > hello.txt` in this folder.
2. Ask where it is: `cmsfs status`. It is uploaded as soon as you stop changing it.
3. Find it by what it says: `cmsfs search hello`.
4. Delete it, look into `.trash`, and move it back.
','','[]');
INSERT INTO "document" VALUES(100008,'2 Without a network.md','','# Without a network

Folders that you have seen stay visible, files that you have read stay readable, and what you change is
kept on this disk until the service can be reached again. Nothing that was saved is ever dropped.

`cmsfs pin "Projects/Harbour Bridge"` keeps a whole folder on this disk, also what you have not read yet.
','','[]');
INSERT INTO "document" VALUES(100009,'3 Finding things.md','','# Finding things

`cmsfs search budget` looks at names, descriptions and the text of files.

- "exact words" in double quotes are found as they stand.
- AND, OR and NOT in upper case combine words: `bridge AND NOT budget`.
- Several words without them mean any of the words.
','','[]');
INSERT INTO "document" VALUES(100010,'Projects','','','','[]');
INSERT INTO "document" VALUES(100011,'Harbour Bridge','Renewal of the footbridge','','','[]');
INSERT INTO "document" VALUES(100012,'Plan.md','Phases and who does them','# Harbour Bridge: plan

Renewal of the footbridge between the fish market and the old lighthouse.

| Phase | From | To | Who |
|---|---|---|---|
| Survey | January | February | Ada |
| Design | March | May | Ben |
| Permits | April | July | Cleo |
| Building | August | November | Ben |

Open: the colour of the railing. The town prefers green, the fishermen prefer anything but green.
','','[]');
INSERT INTO "document" VALUES(100013,'Budget 2026.csv','Planned and spent','position,planned,spent,remark
Survey,12000,11480,finished
Design,38000,29100,second draft is out
Permits,6500,2100,two of five granted
Steel,145000,0,offers until May
Timber,52000,0,oak or larch
Railing,18000,0,colour to be decided
Lighting,9500,0,
Reserve,25000,0,do not touch
','','[]');
INSERT INTO "document" VALUES(100014,'Minutes','','','','[]');
INSERT INTO "document" VALUES(100015,'Minutes 2026-03-12.md','','# Minutes, 12 March

Present: Ada, Ben, Cleo.

- The survey is finished; the northern pillar is sounder than feared.
- Ben shows the first draft. The curve stays.
- Cleo asks for the noise report before April.
- Next meeting: 9 April, at the lighthouse if it does not rain.
','','[]');
INSERT INTO "document" VALUES(100016,'Minutes 2026-04-09.md','','# Minutes, 9 April

Present: Ada, Cleo. Ben by telephone, from the ferry.

- It rained. We met in the market hall.
- The noise report is in `Permits/`.
- Steel: three offers, opened together in May.
- Railing: put off again.
','','[]');
INSERT INTO "document" VALUES(100017,'Permits','','','','[]');
INSERT INTO "document" VALUES(100018,'Noise report.txt','','Noise report, summary

Measured on four days at the eastern quay, between seven and nineteen hours.
Gulls exceed every limit that applies to building sites.
The building site is expected to stay below the gulls.
','','[]');
INSERT INTO "document" VALUES(100019,'Checklist.txt','','[x] Water authority
[x] Monument protection
[ ] Harbour master
[ ] Fire brigade
[ ] Neighbours on the eastern quay
','','[]');
INSERT INTO "document" VALUES(100020,'First idea.md','','# Harbour Bridge: first idea

A tunnel. (It was late.)
','','[]');
INSERT INTO "document" VALUES(100021,'Roof Garden','','','','[]');
INSERT INTO "document" VALUES(100022,'Plan.md','','# Roof garden

Twelve beds, one hive, one bench. The lift carries 400 kg: soil goes up in the mornings.

Order in which beds are planted: herbs, beans, tomatoes, then whatever the seed shop has.
','','[]');
INSERT INTO "document" VALUES(100023,'Plants.csv','What grows where','bed,plant,sown,harvest
1,thyme,March,all year
2,parsley,March,June
3,chives,March,May
4,runner beans,May,August
5,peas,April,July
6,tomatoes,February,August
7,courgettes,May,July
8,strawberries,last year,June
','','[]');
INSERT INTO "document" VALUES(100024,'Reports','','','','[]');
INSERT INTO "document" VALUES(100025,'2025','','','','[]');
INSERT INTO "document" VALUES(100026,'Year 2025.md','','# The year in short

More visitors than ever in summer, fewer than hoped in November. The bridge project took a third of all
hours and will take half of them next year. The roof garden paid for its own soil.

Figures by quarter stand in the tables beside this file.
','','[]');
INSERT INTO "document" VALUES(100027,'2026','','','','[]');
INSERT INTO "document" VALUES(100028,'Visitors Q1.csv','','month,visitors,tickets,revenue
January,1204,980,7840
February,1177,942,7536
March,1630,1325,10600
','','[]');
INSERT INTO "document" VALUES(100029,'Visitors Q2.csv','','month,visitors,tickets,revenue
April,2015,1710,13680
May,2480,2102,16816
June,3127,2690,21520
','','[]');
INSERT INTO "document" VALUES(100030,'Visitors Q3.csv','','month,visitors,tickets,revenue
July,4408,3951,31608
August,4721,4260,34080
September,2886,2504,20032
','','[]');
INSERT INTO "document" VALUES(100031,'Office','What everybody needs now and then','','','[]');
INSERT INTO "document" VALUES(100032,'Handbook.md','','# Handbook

How we name files: what it is, then of when. `Minutes 2026-03-12.md`, not `new new final (2).md`.

How we keep them: the service keeps old versions, so nobody needs copies called `old`.

Whom to ask: Ada about money, Ben about bridges, Cleo about everything that needs a signature.
','','[]');
INSERT INTO "document" VALUES(100033,'Travel expenses.md','','# Travel expenses

Train before plane, second class before first. Keep receipts; photographs of receipts are receipts.
Meals count up to 28 a day. The ferry is always paid.
','','[]');
INSERT INTO "document" VALUES(100034,'Contacts.csv','','name,role,telephone
Ada Example,administration,555-0101
Ben Sample,engineering,555-0102
Cleo Specimen,permits,555-0103
Harbour master,harbour,555-0110
Market hall,caretaker,555-0123
','','[]');
INSERT INTO "document" VALUES(100035,'Personal','','','','[]');
INSERT INTO "document" VALUES(100036,'Bread.md','','# Bread for the Friday table

500 g flour, 350 g water, 10 g salt, a little yeast, and a night in the cold.
Hot oven, a lid for half an hour, then without it until it is as dark as you dare.
','','[]');
INSERT INTO "document" VALUES(100037,'Haiku.txt','','Tide comes in at noon.
The bridge is still a drawing.
Gulls inspect the plan.
','','[]');
INSERT INTO "document" VALUES(100038,'Reading list.txt','','- A book about bridges, returned late
- The timetable of the ferry
- "How to keep bees", borrowed from Cleo
','','[]');
INSERT INTO "document" VALUES(100039,'Links','Addresses worth keeping','','','[]');
INSERT INTO "document" VALUES(100040,'Tide table','High water, day by day','','','[]');
INSERT INTO "document" VALUES(100041,'Ferry timetable','','','','[]');
INSERT INTO "user_group" VALUES(780001,1,'Builders','builders','admins_only','admins_only','{}',1795445264258477,1795445264258477);
INSERT INTO "membership" VALUES(790001,780001,2002,'admin','{}',1795445264258477,1795445264258477);
INSERT INTO "membership" VALUES(790002,780001,2003,'member','{}',1795445264258477,1795445264258477);
INSERT INTO "collaboration" VALUES(750001,100010,1,2005,NULL,NULL,'editor','accepted',0,0,NULL,2001,1795445264258477,1795445264258477,NULL);
INSERT INTO "collaboration" VALUES(750002,100010,1,NULL,NULL,'new@example.net','viewer','pending',0,0,NULL,2001,1795445264258477,1795445264258477,NULL);
INSERT INTO "collaboration" VALUES(750003,100024,1,NULL,780001,NULL,'viewer','accepted',0,0,NULL,2001,1795445264258477,1795445264258477,NULL);
INSERT INTO "recent_link" VALUES(2002,100005,'abcdef',1795445264258477);
INSERT INTO "admin_event" VALUES(2000001,1,'UPLOAD',1795445264115948,2001,'{"item_type":"file","item_id":"100005","item_name":"Welcome.md","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000002,1,'ITEM_CREATE',1795445264122269,2001,'{"item_type":"folder","item_id":"100006","item_name":"Getting started","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000003,1,'UPLOAD',1795445264122728,2001,'{"item_type":"file","item_id":"100007","item_name":"1 First steps.md","parent":{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000004,1,'UPLOAD',1795445264123152,2001,'{"item_type":"file","item_id":"100008","item_name":"2 Without a network.md","parent":{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000005,1,'UPLOAD',1795445264123513,2001,'{"item_type":"file","item_id":"100009","item_name":"3 Finding things.md","parent":{"type":"folder","id":"100006","sequence_id":"0","etag":"0","name":"Getting started"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000006,1,'ITEM_CREATE',1795445264123854,2001,'{"item_type":"folder","item_id":"100010","item_name":"Projects","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000007,1,'ITEM_CREATE',1795445264124069,2001,'{"item_type":"folder","item_id":"100011","item_name":"Harbour Bridge","parent":{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000008,1,'UPLOAD',1795445264124268,2001,'{"item_type":"file","item_id":"100012","item_name":"Plan.md","parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000009,1,'UPLOAD',1795445264124622,2001,'{"item_type":"file","item_id":"100013","item_name":"Budget 2026.csv","parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000010,1,'ITEM_CREATE',1795445264124937,2001,'{"item_type":"folder","item_id":"100014","item_name":"Minutes","parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000011,1,'UPLOAD',1795445264125269,2001,'{"item_type":"file","item_id":"100015","item_name":"Minutes 2026-03-12.md","parent":{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000012,1,'UPLOAD',1795445264125568,2001,'{"item_type":"file","item_id":"100016","item_name":"Minutes 2026-04-09.md","parent":{"type":"folder","id":"100014","sequence_id":"0","etag":"0","name":"Minutes"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000013,1,'ITEM_CREATE',1795445264125858,2001,'{"item_type":"folder","item_id":"100017","item_name":"Permits","parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000014,1,'UPLOAD',1795445264182848,2001,'{"item_type":"file","item_id":"100018","item_name":"Noise report.txt","parent":{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000015,1,'UPLOAD',1795445264183430,2001,'{"item_type":"file","item_id":"100019","item_name":"Checklist.txt","parent":{"type":"folder","id":"100017","sequence_id":"0","etag":"0","name":"Permits"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000016,1,'UPLOAD',1795445264183809,2001,'{"item_type":"file","item_id":"100020","item_name":"First idea.md","parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000017,1,'DELETE',1795445264185596,2001,'{"item_type":"file","item_id":"100020","item_name":"First idea.md","parent":{"type":"folder","id":"100011","sequence_id":"0","etag":"0","name":"Harbour Bridge"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000018,1,'ITEM_CREATE',1795445264188353,2001,'{"item_type":"folder","item_id":"100021","item_name":"Roof Garden","parent":{"type":"folder","id":"100010","sequence_id":"0","etag":"0","name":"Projects"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000019,1,'UPLOAD',1795445264188603,2001,'{"item_type":"file","item_id":"100022","item_name":"Plan.md","parent":{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000020,1,'UPLOAD',1795445264188933,2001,'{"item_type":"file","item_id":"100023","item_name":"Plants.csv","parent":{"type":"folder","id":"100021","sequence_id":"0","etag":"0","name":"Roof Garden"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000021,1,'ITEM_CREATE',1795445264189392,2001,'{"item_type":"folder","item_id":"100024","item_name":"Reports","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000022,1,'ITEM_CREATE',1795445264189587,2001,'{"item_type":"folder","item_id":"100025","item_name":"2025","parent":{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000023,1,'UPLOAD',1795445264189775,2001,'{"item_type":"file","item_id":"100026","item_name":"Year 2025.md","parent":{"type":"folder","id":"100025","sequence_id":"0","etag":"0","name":"2025"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000024,1,'ITEM_CREATE',1795445264202458,2001,'{"item_type":"folder","item_id":"100027","item_name":"2026","parent":{"type":"folder","id":"100024","sequence_id":"0","etag":"0","name":"Reports"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000025,1,'UPLOAD',1795445264202941,2001,'{"item_type":"file","item_id":"100028","item_name":"Visitors Q1.csv","parent":{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000026,1,'UPLOAD',1795445264203383,2001,'{"item_type":"file","item_id":"100029","item_name":"Visitors Q2.csv","parent":{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000027,1,'UPLOAD',1795445264203720,2001,'{"item_type":"file","item_id":"100030","item_name":"Visitors Q3.csv","parent":{"type":"folder","id":"100027","sequence_id":"0","etag":"0","name":"2026"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000028,1,'ITEM_CREATE',1795445264204013,2001,'{"item_type":"folder","item_id":"100031","item_name":"Office","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000029,1,'UPLOAD',1795445264204201,2001,'{"item_type":"file","item_id":"100032","item_name":"Handbook.md","parent":{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000030,1,'UPLOAD',1795445264204498,2001,'{"item_type":"file","item_id":"100033","item_name":"Travel expenses.md","parent":{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000031,1,'UPLOAD',1795445264204861,2001,'{"item_type":"file","item_id":"100034","item_name":"Contacts.csv","parent":{"type":"folder","id":"100031","sequence_id":"0","etag":"0","name":"Office"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000032,1,'ITEM_CREATE',1795445264205122,2001,'{"item_type":"folder","item_id":"100035","item_name":"Personal","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000033,1,'UPLOAD',1795445264205320,2001,'{"item_type":"file","item_id":"100036","item_name":"Bread.md","parent":{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000034,1,'UPLOAD',1795445264205602,2001,'{"item_type":"file","item_id":"100037","item_name":"Haiku.txt","parent":{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000035,1,'UPLOAD',1795445264205861,2001,'{"item_type":"file","item_id":"100038","item_name":"Reading list.txt","parent":{"type":"folder","id":"100035","sequence_id":"0","etag":"0","name":"Personal"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000036,1,'ITEM_CREATE',1795445264222564,2001,'{"item_type":"folder","item_id":"100039","item_name":"Links","parent":{"type":"folder","id":"0","sequence_id":null,"etag":null,"name":"All Files"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000037,1,'ITEM_CREATE',1795445264222947,2001,'{"item_type":"web_link","item_id":"100040","item_name":"Tide table","parent":{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "admin_event" VALUES(2000038,1,'ITEM_CREATE',1795445264223189,2001,'{"item_type":"web_link","item_id":"100041","item_name":"Ferry timetable","parent":{"type":"folder","id":"100039","sequence_id":"0","etag":"0","name":"Links"},"owned_by":{"type":"user","id":"2001","name":"Ada Example","login":"ada@example.com"}}','{}');
INSERT INTO "favorite" VALUES(2001,100005,1795445264258477);
INSERT INTO "comment" VALUES(770001,100005,NULL,'Seen.',2002,1795445264258477,1795445264258477);
INSERT INTO "task" VALUES(800001,100005,'review','all_assignees','Please read.',NULL,2001,1795445264258477);
INSERT INTO "task_assignment" VALUES(810001,800001,2002,'','incomplete',2001,1795445264258477,NULL);
INSERT INTO "email_alias" VALUES(800001,2002,'benjamin@example.com');
INSERT INTO "avatar" VALUES(2001,'image/png',X'89504E47');
INSERT INTO "invite" VALUES(810001,1,2005,2001,1795445264258477,1795445264258477);
INSERT INTO "terms_of_service" VALUES(820001,1,'managed','disabled','Be kind.',1795445264258477,1795445264258477);
INSERT INTO "terms_status" VALUES(830001,820001,2002,1,1795445264258477,1795445264258477);
INSERT INTO "storage_policy" VALUES(840001,1,'Far away');
INSERT INTO "storage_assignment" VALUES(2002,840001);
DELETE FROM sqlite_sequence;
INSERT INTO "sqlite_sequence" VALUES('metadata_template',3);
INSERT INTO "sqlite_sequence" VALUES('account',2005);
INSERT INTO "sqlite_sequence" VALUES('item',100041);
INSERT INTO "sqlite_sequence" VALUES('version',500023);
INSERT INTO "sqlite_sequence" VALUES('exemption',700001);
INSERT INTO "sqlite_sequence" VALUES('legal_hold_policy',710001);
INSERT INTO "sqlite_sequence" VALUES('legal_hold_assignment',720001);
INSERT INTO "sqlite_sequence" VALUES('retention_policy',730001);
INSERT INTO "sqlite_sequence" VALUES('retention_assignment',740001);
INSERT INTO "sqlite_sequence" VALUES('event',1000038);
INSERT INTO "sqlite_sequence" VALUES('collaboration',750003);
INSERT INTO "sqlite_sequence" VALUES('allowlist',760000);
INSERT INTO "sqlite_sequence" VALUES('user_group',780001);
INSERT INTO "sqlite_sequence" VALUES('membership',790002);
INSERT INTO "sqlite_sequence" VALUES('admin_event',2000038);
INSERT INTO "sqlite_sequence" VALUES('comment',770001);
INSERT INTO "sqlite_sequence" VALUES('task',800001);
INSERT INTO "sqlite_sequence" VALUES('task_assignment',810001);
INSERT INTO "sqlite_sequence" VALUES('webhook',820000);
INSERT INTO "sqlite_sequence" VALUES('email_alias',800001);
INSERT INTO "sqlite_sequence" VALUES('invite',810001);
INSERT INTO "sqlite_sequence" VALUES('terms_of_service',820001);
INSERT INTO "sqlite_sequence" VALUES('terms_status',830001);
INSERT INTO "sqlite_sequence" VALUES('storage_policy',840001);
INSERT INTO "sqlite_sequence" VALUES('metadata_instance',1);
INSERT INTO "sqlite_sequence" VALUES('family',1);
INSERT INTO word(word) VALUES('rebuild');
CREATE INDEX family_by_end ON family (expires_at);
CREATE INDEX refresh_token_of_family ON refresh_token (family);
CREATE INDEX code_by_end ON code (expires_at);
CREATE INDEX code_of_family ON code (family);
CREATE INDEX token_by_end ON token (expires_at);
CREATE INDEX token_of_family ON token (family);
CREATE INDEX token_of_source ON token (source);
CREATE UNIQUE INDEX item_link ON item (link) WHERE link IS NOT NULL;
CREATE UNIQUE INDEX item_name ON item (parent, name_key) WHERE status = 0;
CREATE INDEX item_child ON item (parent, status, kind, name_key, id);
CREATE INDEX item_below ON item (path, status, modified_at, created_at, kind);
CREATE INDEX item_created ON item (owner, status, created_at, modified_at, kind, path);
CREATE INDEX item_modified ON item (owner, status, modified_at, created_at, kind, path);
CREATE INDEX item_trashed ON item (owner, trashed_at) WHERE status = 1;
CREATE INDEX folder_modified ON item (owner, status, modified_at, created_at) WHERE kind = 0;
CREATE INDEX version_of_file ON version (file, id);
CREATE INDEX version_blob ON version (sha1);
CREATE INDEX version_made ON version (created_by, created_at);
CREATE UNIQUE INDEX template_key ON metadata_template (coalesce(enterprise, 0), lower(key));
CREATE INDEX metadata_instance_of ON metadata_instance (template, item);
CREATE UNIQUE INDEX legal_hold_name ON legal_hold_policy (enterprise, name_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX legal_hold_target ON legal_hold_assignment (policy, type, target) WHERE deleted_at IS NULL;
CREATE INDEX legal_hold_kept_version ON legal_hold_kept (version);
CREATE INDEX retention_kept_version ON retention_kept (version);
CREATE INDEX upload_session_by_end ON upload_session (expires_at);
CREATE INDEX item_purge ON item (purge_at, id) WHERE purge_at IS NOT NULL;
CREATE INDEX item_locked ON item (id) WHERE lock IS NOT NULL;
CREATE INDEX version_trashed ON version (trashed_at) WHERE trashed_at IS NOT NULL;
CREATE UNIQUE INDEX collaboration_of_group ON collaboration (user_group, item) WHERE user_group IS NOT NULL;
CREATE INDEX collaboration_by_end ON collaboration (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX admin_event_of ON admin_event (enterprise, id);
CREATE INDEX item_trashed_by ON item (trashed_by) WHERE status = 1;
CREATE INDEX rendition_asked ON rendition (asked_at) WHERE state = 0;
CREATE INDEX favorite_of_item ON favorite (item);
CREATE INDEX comment_of_item ON comment (item, id);
CREATE INDEX comment_replies ON comment (reply_to);
CREATE INDEX comment_written ON comment (created_by, created_at);
CREATE INDEX task_of_file ON task (file, id);
CREATE INDEX webhook_of_app ON webhook (app, created_by, id);
CREATE INDEX webhook_delivery_due ON webhook_delivery (due_at);
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
CREATE TRIGGER version_orphaned AFTER DELETE ON version
  WHEN NOT EXISTS (SELECT 1 FROM version WHERE sha1 = OLD.sha1) BEGIN
  INSERT OR IGNORE INTO orphan VALUES (OLD.sha1);
END;
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
CREATE INDEX event_of_user ON event (account, id);
CREATE INDEX membership_of_user ON membership (account, user_group);
CREATE UNIQUE INDEX collaboration_once ON collaboration (item, coalesce(account, email));
CREATE INDEX collaboration_of_user ON collaboration (account, status);
CREATE INDEX collaboration_by_email ON collaboration (email) WHERE account IS NULL;
CREATE INDEX email_alias_of_user ON email_alias (account);
CREATE TRIGGER version_added AFTER INSERT ON version BEGIN
  UPDATE account SET space_used = space_used + NEW.size WHERE id = (SELECT owner FROM item WHERE id = NEW.file);
END;
CREATE TRIGGER item_purged BEFORE DELETE ON item BEGIN
  UPDATE account SET space_used = space_used - (SELECT coalesce(sum(size), 0) FROM version WHERE file = OLD.id)
    WHERE id = OLD.owner;
  DELETE FROM document WHERE id = OLD.id;
END;
CREATE TRIGGER version_removed AFTER DELETE ON version BEGIN
  UPDATE account SET space_used = space_used - OLD.size WHERE id = (SELECT owner FROM item WHERE id = OLD.file);
END;
CREATE TRIGGER user_made AFTER INSERT ON account WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.id WHERE account IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_renamed AFTER UPDATE OF login ON account WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.id WHERE account IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_left AFTER UPDATE OF enterprise ON account BEGIN
  DELETE FROM collaboration WHERE account = NEW.id AND NEW.enterprise = 0;
  DELETE FROM membership WHERE account = NEW.id AND user_group IN (
    SELECT id FROM user_group WHERE enterprise != NEW.enterprise);
  DELETE FROM collaborator WHERE account = NEW.id AND enterprise = NEW.enterprise;
  INSERT OR IGNORE INTO collaborator SELECT DISTINCT enterprise, account FROM collaboration
    WHERE account = NEW.id AND status = 'accepted' AND enterprise != NEW.enterprise;
END;
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
CREATE TRIGGER email_alias_made AFTER INSERT ON email_alias BEGIN
  UPDATE OR IGNORE collaboration SET account = NEW.account WHERE account IS NULL AND email = NEW.email;
END;
CREATE TABLE usage (
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  hour        INTEGER NOT NULL,                -- hours since 1970
  requests    INTEGER NOT NULL,
  space_used  INTEGER NOT NULL,                -- bytes of all versions
  PRIMARY KEY (enterprise, hour)
) WITHOUT ROWID;
PRAGMA user_version=13;
