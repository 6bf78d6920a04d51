-- The whole schema of format 10, which every older store is brought to (see upgrade.py).  Never changed.

CREATE TABLE enterprise (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  tracking_codes  TEXT NOT NULL DEFAULT '[]',
  trash_days  INTEGER DEFAULT 30
);
CREATE TABLE user (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise          INTEGER NOT NULL REFERENCES enterprise,
  name                TEXT NOT NULL,
  login               TEXT UNIQUE,
  role                TEXT NOT NULL,
  status              TEXT NOT NULL DEFAULT 'active',
  space_amount        INTEGER NOT NULL,
  space_used          INTEGER NOT NULL DEFAULT 0,
  max_upload_size     INTEGER NOT NULL,
  enterprise_content  INTEGER NOT NULL DEFAULT 0,
  details             TEXT NOT NULL DEFAULT '{}',
  created_at          INTEGER NOT NULL,
  modified_at         INTEGER NOT NULL,
  root                INTEGER
);
CREATE TABLE collaborator (
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  user        INTEGER NOT NULL REFERENCES user,
  PRIMARY KEY (enterprise, user)
) WITHOUT ROWID;
CREATE TABLE exemption (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  user         INTEGER NOT NULL REFERENCES user,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, user)
);
CREATE TABLE app (
  client_id      TEXT PRIMARY KEY,
  secret_hash    TEXT NOT NULL,
  name           TEXT NOT NULL,
  enterprise     INTEGER NOT NULL REFERENCES enterprise,
  service_user   INTEGER NOT NULL REFERENCES user,
  scopes         TEXT NOT NULL DEFAULT 'root_readwrite',
  grants         TEXT NOT NULL DEFAULT 'client_credentials',
  redirect_uris  TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;
CREATE TABLE app_key (
  app  TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  kid  TEXT NOT NULL,
  pem  TEXT NOT NULL,
  PRIMARY KEY (app, kid)
) WITHOUT ROWID;
CREATE TABLE assertion (
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  jti         TEXT NOT NULL,
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY (app, jti)
) WITHOUT ROWID;
CREATE TABLE family (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  user        INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  scopes      TEXT,
  expires_at  INTEGER NOT NULL
);
CREATE INDEX family_by_end ON family (expires_at);
CREATE TABLE refresh_token (
  hash    TEXT PRIMARY KEY,
  family  INTEGER NOT NULL REFERENCES family ON DELETE CASCADE,
  used    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX refresh_token_of_family ON refresh_token (family);
CREATE TABLE code (
  hash          TEXT PRIMARY KEY,
  app           TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  user          INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  redirect_uri  TEXT NOT NULL,
  scopes        TEXT,
  challenge     TEXT,
  expires_at    INTEGER NOT NULL,
  used          INTEGER NOT NULL DEFAULT 0,
  family        INTEGER REFERENCES family ON DELETE SET NULL
) WITHOUT ROWID;
CREATE INDEX code_by_end ON code (expires_at);
CREATE INDEX code_of_family ON code (family);
CREATE TABLE token (
  hash        TEXT PRIMARY KEY,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  user        INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  scopes      TEXT,
  bound       INTEGER,
  family      INTEGER REFERENCES family ON DELETE CASCADE,
  source      TEXT REFERENCES token ON DELETE CASCADE,
  actor       TEXT,
  link        TEXT
) WITHOUT ROWID;
CREATE INDEX token_by_end ON token (expires_at);
CREATE INDEX token_of_family ON token (family);
CREATE INDEX token_of_source ON token (source);
CREATE TABLE password (
  user          INTEGER PRIMARY KEY REFERENCES user ON DELETE CASCADE,
  hash          TEXT NOT NULL
);
CREATE TABLE login (
  hash        TEXT PRIMARY KEY,
  user        INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  expires_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE item (
  id                   INTEGER PRIMARY KEY AUTOINCREMENT,
  kind                 INTEGER NOT NULL,
  owner                INTEGER NOT NULL REFERENCES user,
  parent               INTEGER,
  path                 TEXT NOT NULL,
  name                 TEXT NOT NULL,
  name_key             TEXT NOT NULL,
  extension            TEXT NOT NULL DEFAULT '',
  status               INTEGER NOT NULL DEFAULT 0,
  trash                INTEGER NOT NULL DEFAULT 0,
  etag                 INTEGER NOT NULL DEFAULT 0,
  created_at           INTEGER NOT NULL,
  modified_at          INTEGER NOT NULL,
  trashed_at           INTEGER,
  trashed_by           INTEGER,
  purge_at             INTEGER,
  content_created_at   INTEGER NOT NULL,
  content_modified_at  INTEGER NOT NULL,
  created_by           INTEGER NOT NULL REFERENCES user,
  modified_by          INTEGER NOT NULL REFERENCES user,
  size                 INTEGER NOT NULL DEFAULT 0,
  version              INTEGER,
  sha1                 TEXT,
  version_number       INTEGER NOT NULL DEFAULT 1,
  url                  TEXT,
  description          TEXT NOT NULL DEFAULT '',
  tags                 TEXT NOT NULL DEFAULT '[]',
  lock                 TEXT,
  link                 TEXT,
  link_terms           TEXT
);
CREATE UNIQUE INDEX item_link ON item (link) WHERE link IS NOT NULL;
CREATE UNIQUE INDEX item_name ON item (parent, name_key) WHERE status = 0;
CREATE INDEX item_child ON item (parent, status, kind, name_key, id);
CREATE INDEX item_below ON item (path, status, modified_at, created_at, kind);
CREATE INDEX item_created ON item (owner, status, created_at, modified_at, kind, path);
CREATE INDEX item_modified ON item (owner, status, modified_at, created_at, kind, path);
CREATE INDEX item_trashed ON item (owner, trashed_at) WHERE status = 1;
CREATE INDEX folder_modified ON item (owner, status, modified_at, created_at) WHERE kind = 0;
CREATE TABLE version (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  sha1        TEXT NOT NULL,
  size        INTEGER NOT NULL,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL REFERENCES user,
  trashed_at  INTEGER,
  trashed_by  INTEGER,
  restored_at  INTEGER,
  restored_by  INTEGER,
  renamed     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX version_of_file ON version (file, id);
CREATE INDEX version_blob ON version (sha1);
CREATE INDEX version_made ON version (created_by, created_at);
CREATE TABLE metadata_template (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid          TEXT NOT NULL UNIQUE,
  enterprise    INTEGER REFERENCES enterprise,
  key           TEXT NOT NULL,
  display_name  TEXT NOT NULL,
  hidden        INTEGER NOT NULL DEFAULT 0,
  copies        INTEGER NOT NULL DEFAULT 0,
  fields        TEXT NOT NULL DEFAULT '[]',
  version       INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX template_key ON metadata_template (coalesce(enterprise, 0), lower(key));
INSERT INTO metadata_template (uuid, enterprise, key, display_name)
  VALUES ('00000000-0000-4000-8000-000000000001', NULL, 'properties', 'Properties');
INSERT INTO metadata_template (uuid, enterprise, key, display_name)
  VALUES ('00000000-0000-4000-8000-000000000002', NULL, 'boxSkillsCards', 'Skill cards');
CREATE TABLE metadata_instance (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid          TEXT NOT NULL UNIQUE,
  item          INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  template      INTEGER NOT NULL REFERENCES metadata_template ON DELETE CASCADE,
  data          TEXT NOT NULL,
  version       INTEGER NOT NULL DEFAULT 0,
  type_version  INTEGER NOT NULL,
  UNIQUE (item, template)
);
CREATE INDEX metadata_instance_of ON metadata_instance (template, item);
CREATE TABLE legal_hold_policy (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise         INTEGER NOT NULL REFERENCES enterprise,
  name               TEXT NOT NULL,
  name_key           TEXT NOT NULL,
  description        TEXT NOT NULL DEFAULT '',
  release_notes      TEXT NOT NULL DEFAULT '',
  is_ongoing         INTEGER NOT NULL,
  filter_started_at  INTEGER,
  filter_ended_at    INTEGER,
  created_by         INTEGER NOT NULL REFERENCES user,
  created_at         INTEGER NOT NULL,
  modified_at        INTEGER NOT NULL,
  deleted_at         INTEGER
);
CREATE UNIQUE INDEX legal_hold_name ON legal_hold_policy (enterprise, name_key) WHERE deleted_at IS NULL;
CREATE TABLE legal_hold_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  policy       INTEGER NOT NULL REFERENCES legal_hold_policy,
  type         TEXT NOT NULL,
  target       INTEGER NOT NULL,
  assigned_by  INTEGER NOT NULL REFERENCES user,
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
CREATE TABLE retention_policy (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise          INTEGER NOT NULL REFERENCES enterprise,
  name                TEXT NOT NULL,
  description         TEXT NOT NULL DEFAULT '',
  days                INTEGER,
  disposition_action  TEXT NOT NULL,
  is_modifiable       INTEGER NOT NULL,
  details             TEXT NOT NULL DEFAULT '{}',
  created_by          INTEGER NOT NULL REFERENCES user,
  created_at          INTEGER NOT NULL,
  modified_at         INTEGER NOT NULL,
  retired_at          INTEGER,
  UNIQUE (enterprise, name)
);
CREATE TABLE retention_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  policy       INTEGER NOT NULL REFERENCES retention_policy ON DELETE CASCADE,
  type         TEXT NOT NULL,
  target       INTEGER NOT NULL,
  filters      TEXT NOT NULL DEFAULT '[]',
  start_field  TEXT,
  start_key    TEXT,
  assigned_by  INTEGER NOT NULL REFERENCES user,
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
  UPDATE user SET space_used = space_used + NEW.size WHERE id = (SELECT owner FROM item WHERE id = NEW.file);
END;
CREATE TRIGGER item_purged BEFORE DELETE ON item BEGIN
  UPDATE user SET space_used = space_used - (SELECT coalesce(sum(size), 0) FROM version WHERE file = OLD.id)
    WHERE id = OLD.owner;
  DELETE FROM document WHERE id = OLD.id;
END;
CREATE TABLE upload_session (
  id          TEXT PRIMARY KEY,
  user        INTEGER NOT NULL REFERENCES user,
  folder      INTEGER,
  file        INTEGER,
  name        TEXT,
  size        INTEGER NOT NULL,
  part_size   INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  committed   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX upload_session_by_end ON upload_session (expires_at);
CREATE TABLE upload_part (
  session  TEXT NOT NULL REFERENCES upload_session ON DELETE CASCADE,
  offset   INTEGER NOT NULL,
  id       TEXT NOT NULL,
  size     INTEGER NOT NULL,
  sha1     TEXT NOT NULL,
  file     TEXT NOT NULL,
  PRIMARY KEY (session, offset)
) WITHOUT ROWID;
CREATE TABLE event (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  user        INTEGER NOT NULL,
  type        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL,
  source      TEXT NOT NULL,
  details     TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX event_of_user ON event (user, id);
CREATE TABLE document (
  id            INTEGER PRIMARY KEY,
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
INSERT INTO sqlite_sequence (name, seq) VALUES ('user', 2000), ('item', 100000), ('version', 500000),
  ('exemption', 700000), ('legal_hold_policy', 710000), ('legal_hold_assignment', 720000),
  ('retention_policy', 730000), ('retention_assignment', 740000),
  ('event', 1000000);
CREATE INDEX item_purge ON item (purge_at, id) WHERE purge_at IS NOT NULL;
CREATE INDEX item_locked ON item (id) WHERE lock IS NOT NULL;
CREATE INDEX version_trashed ON version (trashed_at) WHERE trashed_at IS NOT NULL;
CREATE TABLE orphan (
  sha1  TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TRIGGER version_orphaned AFTER DELETE ON version
  WHEN NOT EXISTS (SELECT 1 FROM version WHERE sha1 = OLD.sha1) BEGIN
  INSERT OR IGNORE INTO orphan VALUES (OLD.sha1);
END;
CREATE TRIGGER version_removed AFTER DELETE ON version BEGIN
  UPDATE user SET space_used = space_used - OLD.size WHERE id = (SELECT owner FROM item WHERE id = OLD.file);
END;
CREATE TABLE user_group (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  name         TEXT NOT NULL,
  name_key     TEXT NOT NULL,
  invited_by   TEXT NOT NULL,
  viewed_by    TEXT NOT NULL,
  details      TEXT NOT NULL DEFAULT '{}',
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, name_key)
);
CREATE TABLE membership (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  user_group   INTEGER NOT NULL REFERENCES user_group ON DELETE CASCADE,
  user         INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  role         TEXT NOT NULL,
  permissions  TEXT NOT NULL DEFAULT '{}',
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (user_group, user)
);
CREATE INDEX membership_of_user ON membership (user, user_group);
INSERT INTO sqlite_sequence (name, seq) VALUES ('collaboration', 750000), ('allowlist', 760000),
  ('user_group', 780000), ('membership', 790000);
CREATE TABLE collaboration (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  item           INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  enterprise     INTEGER NOT NULL REFERENCES enterprise,
  user           INTEGER REFERENCES user,
  user_group     INTEGER REFERENCES user_group,
  email          TEXT,
  role           TEXT NOT NULL,
  status         TEXT NOT NULL,
  can_view_path  INTEGER NOT NULL DEFAULT 0,
  access_only    INTEGER NOT NULL DEFAULT 0,
  expires_at     INTEGER,
  created_by     INTEGER NOT NULL REFERENCES user,
  created_at     INTEGER NOT NULL,
  modified_at    INTEGER NOT NULL,
  acknowledged_at  INTEGER
);
CREATE UNIQUE INDEX collaboration_once ON collaboration (item, coalesce(user, email));
CREATE INDEX collaboration_of_user ON collaboration (user, status);
CREATE INDEX collaboration_by_email ON collaboration (email) WHERE user IS NULL;
CREATE UNIQUE INDEX collaboration_of_group ON collaboration (user_group, item) WHERE user_group IS NOT NULL;
CREATE INDEX collaboration_by_end ON collaboration (expires_at) WHERE expires_at IS NOT NULL;
CREATE TRIGGER user_made AFTER INSERT ON user WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET user = NEW.id WHERE user IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_renamed AFTER UPDATE OF login ON user WHEN NEW.login IS NOT NULL BEGIN
  UPDATE OR IGNORE collaboration SET user = NEW.id WHERE user IS NULL AND email = lower(NEW.login);
END;
CREATE TRIGGER user_left AFTER UPDATE OF enterprise ON user BEGIN
  DELETE FROM collaboration WHERE user = NEW.id AND NEW.enterprise = 0;
  DELETE FROM membership WHERE user = NEW.id AND user_group IN (
    SELECT id FROM user_group WHERE enterprise != NEW.enterprise);
  DELETE FROM collaborator WHERE user = NEW.id AND enterprise = NEW.enterprise;
  INSERT OR IGNORE INTO collaborator SELECT DISTINCT enterprise, user FROM collaboration
    WHERE user = NEW.id AND status = 'accepted' AND enterprise != NEW.enterprise;
END;
CREATE TRIGGER collaboration_made AFTER INSERT ON collaboration
  WHEN NEW.status = 'accepted' AND NEW.enterprise != (SELECT enterprise FROM user WHERE id = NEW.user) BEGIN
  INSERT OR IGNORE INTO collaborator VALUES (NEW.enterprise, NEW.user);
END;
CREATE TRIGGER collaboration_changed AFTER UPDATE OF status ON collaboration
  WHEN NEW.status = 'accepted' AND NEW.enterprise != (SELECT enterprise FROM user WHERE id = NEW.user) BEGIN
  INSERT OR IGNORE INTO collaborator VALUES (NEW.enterprise, NEW.user);
END;
CREATE TRIGGER collaboration_ended AFTER DELETE ON collaboration WHEN OLD.status = 'accepted' BEGIN
  DELETE FROM collaborator WHERE enterprise = OLD.enterprise AND user = OLD.user AND NOT EXISTS (
    SELECT 1 FROM collaboration WHERE enterprise = OLD.enterprise AND user = OLD.user AND status = 'accepted');
END;
CREATE TABLE folder_terms (
  folder             INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  restricted         INTEGER NOT NULL DEFAULT 0,
  non_owners_invite  INTEGER NOT NULL DEFAULT 1,
  non_owners_view    INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE allowlist (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  domain      TEXT NOT NULL,
  direction   TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  UNIQUE (enterprise, domain)
);
CREATE TABLE recent_link (
  user     INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  item     INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  link     TEXT NOT NULL,
  used_at  INTEGER NOT NULL,
  PRIMARY KEY (user, item)
) WITHOUT ROWID;
CREATE TABLE admin_event (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL,
  type        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL,
  source      TEXT NOT NULL,
  details     TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX admin_event_of ON admin_event (enterprise, id);
INSERT INTO sqlite_sequence (name, seq) VALUES ('admin_event', 2000000);
CREATE INDEX item_trashed_by ON item (trashed_by) WHERE status = 1;
CREATE TABLE unindexed (
  item  INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE
);
CREATE TABLE rendition (
  sha1      TEXT NOT NULL,
  name      TEXT NOT NULL,
  state     INTEGER NOT NULL DEFAULT 0,
  asked_at  INTEGER NOT NULL,
  PRIMARY KEY (sha1, name)
) WITHOUT ROWID;
CREATE INDEX rendition_asked ON rendition (asked_at) WHERE state = 0;
CREATE TABLE watermark (
  item         INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL
);
CREATE TABLE favorite (
  user         INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  item         INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  added_at     INTEGER NOT NULL,
  PRIMARY KEY (user, item)
) WITHOUT ROWID;
CREATE INDEX favorite_of_item ON favorite (item);
CREATE TABLE folder_lock (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  folder       INTEGER NOT NULL UNIQUE REFERENCES item ON DELETE CASCADE,
  created_by   INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  moves        INTEGER NOT NULL,
  deletes      INTEGER NOT NULL
);
CREATE TABLE comment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  item         INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  reply_to     INTEGER REFERENCES comment ON DELETE CASCADE,
  message      TEXT NOT NULL,
  created_by   INTEGER NOT NULL REFERENCES user,
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
CREATE TABLE sync_mark (
  item   INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  state  TEXT NOT NULL
);
CREATE TABLE link_use (
  item       INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
  downloads  INTEGER NOT NULL DEFAULT 0,
  previews   INTEGER NOT NULL DEFAULT 0
);
INSERT INTO sqlite_sequence (name, seq) VALUES ('comment', 770000);
CREATE TABLE task (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  action      TEXT NOT NULL,
  rule        TEXT NOT NULL,
  message     TEXT NOT NULL,
  due_at      INTEGER,
  created_by  INTEGER NOT NULL REFERENCES user,
  created_at  INTEGER NOT NULL
);
CREATE INDEX task_of_file ON task (file, id);
CREATE TABLE task_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  task         INTEGER NOT NULL REFERENCES task ON DELETE CASCADE,
  user         INTEGER NOT NULL REFERENCES user,
  message      TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT 'incomplete',
  assigned_by  INTEGER NOT NULL REFERENCES user,
  assigned_at  INTEGER NOT NULL,
  resolved_at  INTEGER,
  UNIQUE (task, user)
);
CREATE TABLE cascade_policy (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid        TEXT NOT NULL UNIQUE,
  folder      INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  template    INTEGER NOT NULL REFERENCES metadata_template ON DELETE CASCADE,
  created_by  INTEGER NOT NULL REFERENCES user,
  created_at  INTEGER NOT NULL,
  UNIQUE (folder, template)
);
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
CREATE TABLE webhook (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  target      INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  address     TEXT NOT NULL,
  triggers    TEXT NOT NULL,
  created_by  INTEGER NOT NULL REFERENCES user,
  created_at  INTEGER NOT NULL,
  UNIQUE (target, app, created_by)
);
CREATE INDEX webhook_of_app ON webhook (app, created_by, id);
CREATE TABLE webhook_delivery (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  app         TEXT NOT NULL REFERENCES app ON DELETE CASCADE,
  address     TEXT NOT NULL,
  body        TEXT NOT NULL,
  attempts    INTEGER NOT NULL DEFAULT 0,
  due_at      INTEGER NOT NULL,
  created_at  INTEGER NOT NULL
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (due_at);
CREATE TABLE signature_key (
  app        TEXT PRIMARY KEY REFERENCES app ON DELETE CASCADE,
  main       TEXT NOT NULL,
  secondary  TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO sqlite_sequence (name, seq) VALUES ('task', 800000), ('task_assignment', 810000), ('webhook', 820000);
CREATE TABLE email_alias (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  user        INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  email       TEXT NOT NULL UNIQUE
);
CREATE INDEX email_alias_of_user ON email_alias (user);
CREATE TRIGGER email_alias_made AFTER INSERT ON email_alias BEGIN
  UPDATE OR IGNORE collaboration SET user = NEW.user WHERE user IS NULL AND email = NEW.email;
END;
CREATE TABLE avatar (
  user        INTEGER PRIMARY KEY REFERENCES user ON DELETE CASCADE,
  media_type  TEXT NOT NULL,
  picture     BLOB NOT NULL
);
CREATE TABLE invite (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  user         INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  invited_by   INTEGER NOT NULL REFERENCES user,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, user)
);
CREATE TABLE terms_of_service (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise   INTEGER NOT NULL REFERENCES enterprise,
  kind         TEXT NOT NULL,
  status       TEXT NOT NULL,
  text         TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (enterprise, kind)
);
CREATE TABLE terms_status (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  terms        INTEGER NOT NULL REFERENCES terms_of_service ON DELETE CASCADE,
  user         INTEGER NOT NULL REFERENCES user ON DELETE CASCADE,
  is_accepted  INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  modified_at  INTEGER NOT NULL,
  UNIQUE (terms, user)
);
CREATE TABLE storage_policy (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  enterprise  INTEGER NOT NULL REFERENCES enterprise,
  name        TEXT NOT NULL,
  UNIQUE (enterprise, name)
);
CREATE TABLE storage_assignment (
  user    INTEGER PRIMARY KEY REFERENCES user ON DELETE CASCADE,
  policy  INTEGER REFERENCES storage_policy
);
CREATE TABLE retention_extended (
  version  INTEGER PRIMARY KEY REFERENCES version ON DELETE CASCADE,
  until    INTEGER NOT NULL
);
INSERT INTO sqlite_sequence (name, seq) VALUES ('email_alias', 800000), ('invite', 810000),
  ('terms_of_service', 820000), ('terms_status', 830000), ('storage_policy', 840000);
