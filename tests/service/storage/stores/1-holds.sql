CREATE TABLE enterprise (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  tracking_codes  TEXT NOT NULL DEFAULT '[]'
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
  root                INTEGER                  -- item: this user's root folder, whose id on the wire is 0
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
  client_id     TEXT PRIMARY KEY,
  secret_hash   TEXT NOT NULL,
  name          TEXT NOT NULL,
  enterprise    INTEGER NOT NULL REFERENCES enterprise,
  service_user  INTEGER NOT NULL REFERENCES user
) WITHOUT ROWID;
CREATE TABLE token (
  hash        TEXT PRIMARY KEY,
  app         TEXT NOT NULL REFERENCES app,
  user        INTEGER NOT NULL REFERENCES user,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE item (
  id                   INTEGER PRIMARY KEY AUTOINCREMENT,
  kind                 INTEGER NOT NULL,
  owner                INTEGER NOT NULL REFERENCES user,
  parent               INTEGER,
  path                 TEXT NOT NULL,          -- ids of the folders above, '/12/40/': what is below folder f
                                               -- is path >= f.path||f.id||'/' and < f.path||f.id||'0'
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
  tags                 TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE version (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  file        INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  sha1        TEXT NOT NULL,
  size        INTEGER NOT NULL,
  name        TEXT NOT NULL,                   -- the file's name when this was current
  created_at  INTEGER NOT NULL,
  created_by  INTEGER NOT NULL REFERENCES user
);
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
CREATE TABLE legal_hold_assignment (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  policy       INTEGER NOT NULL REFERENCES legal_hold_policy,
  type         TEXT NOT NULL,
  target       INTEGER NOT NULL,
  assigned_by  INTEGER NOT NULL REFERENCES user,
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
INSERT INTO "enterprise" VALUES (0, '', 0, '[]');
INSERT INTO "enterprise" VALUES (1, 'Example Enterprise', 1795347797846364, '[]');
INSERT INTO "user" VALUES (2001, 1, 'Ada Example', 'ada@example.com', 'admin', 'active', 107374182400, 5263, 53687091200, 1, '{}', 1795347797846364, 1795347797846364, 100001);
INSERT INTO "user" VALUES (2002, 1, 'Ben Sample', 'ben@example.com', 'user', 'active', 107374182400, 0, 53687091200, 0, '{}', 1795347797846364, 1795347797846364, 100002);
INSERT INTO "user" VALUES (2003, 1, 'Cleo Specimen', 'cleo@example.com', 'user', 'active', 107374182400, 0, 53687091200, 0, '{}', 1795347797846364, 1795347797846364, 100003);
INSERT INTO "user" VALUES (2004, 1, 'cmsfs application', NULL, 'user', 'active', 107374182400, 0, 53687091200, 0, '{}', 1795347797846364, 1795347797846364, 100004);
INSERT INTO "app" VALUES ('sample-2b8b31d01aaf452c', '72ed415aba2eac78448232d76625c25d2859dcb6f1ee85c63c389413987dd156', 'cmsfs', 1, 2004);
INSERT INTO "item" VALUES (100001, 0, 2001, NULL, '/', 'All Files', '', '', 3, 0, 0, 1795347797846364, 1795347797846364, NULL, NULL, 1795347797846364, 1795347797846364, 2001, 2001, 5208, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100002, 0, 2002, NULL, '/', 'All Files', '', '', 3, 0, 0, 1795347797846364, 1795347797846364, NULL, NULL, 1795347797846364, 1795347797846364, 2002, 2002, 0, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100003, 0, 2003, NULL, '/', 'All Files', '', '', 3, 0, 0, 1795347797846364, 1795347797846364, NULL, NULL, 1795347797846364, 1795347797846364, 2003, 2003, 0, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100004, 0, 2004, NULL, '/', 'All Files', '', '', 3, 0, 0, 1795347797846364, 1795347797846364, NULL, NULL, 1795347797846364, 1795347797846364, 2004, 2004, 0, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100005, 1, 2001, 100001, '/100001/', 'Welcome.md', 'welcome.md', 'md', 0, 0, 0, 1795347797846879, 1795347797846879, NULL, NULL, 1795347797846879, 1795347797846879, 2001, 2001, 868, 500001, '02ed719b12d5235475004e11b52bb956710a3ea8', 1, NULL, 'Start here', '[]');
INSERT INTO "item" VALUES (100006, 0, 2001, 100001, '/100001/', 'Getting started', 'getting started', '', 0, 0, 0, 1795347797847374, 1795347797847374, NULL, NULL, 1795347797847374, 1795347797847374, 2001, 2001, 861, NULL, NULL, 1, NULL, 'Five minutes with the drive', '[]');
INSERT INTO "item" VALUES (100007, 1, 2001, 100006, '/100001/100006/', '1 First steps.md', '1 first steps.md', 'md', 0, 0, 0, 1795347797847464, 1795347797847464, NULL, NULL, 1795347797847464, 1795347797847464, 2001, 2001, 258, 500002, '3c542ba3fee2b9bfa5c254ac21cfcdc88c04ebfc', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100008, 1, 2001, 100006, '/100001/100006/', '2 Without a network.md', '2 without a network.md', 'md', 0, 0, 0, 1795347797847591, 1795347797847591, NULL, NULL, 1795347797847591, 1795347797847591, 2001, 2001, 330, 500003, '04c50f500a85a429d9642e3906da254c56f1a9dc', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100009, 1, 2001, 100006, '/100001/100006/', '3 Finding things.md', '3 finding things.md', 'md', 0, 0, 0, 1795347797847716, 1795347797847716, NULL, NULL, 1795347797847716, 1795347797847716, 2001, 2001, 273, 500004, '7ca0a286bf1f80585440b6bceb853cc5f3df25b7', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100010, 0, 2001, 100001, '/100001/', 'Projects', 'projects', '', 0, 0, 0, 1795347797847828, 1795347797847828, NULL, NULL, 1795347797847828, 1795347797847828, 2001, 2001, 1894, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100011, 0, 2001, 100010, '/100001/100010/', 'Harbour Bridge', 'harbour bridge', '', 0, 0, 0, 1795347797847882, 1795347797847882, NULL, NULL, 1795347797847882, 1795347797847882, 2001, 2001, 1490, NULL, NULL, 1, NULL, 'Renewal of the footbridge', '[]');
INSERT INTO "item" VALUES (100012, 1, 2001, 100011, '/100001/100010/100011/', 'Plan.md', 'plan.md', 'md', 0, 0, 0, 1795347797847931, 1795347797847931, NULL, NULL, 1795347797847931, 1795347797847931, 2001, 2001, 386, 500005, '37577c593a16be029daa31ccd1aaa2cbb7d0531c', 1, NULL, 'Phases and who does them', '[]');
INSERT INTO "item" VALUES (100013, 1, 2001, 100011, '/100001/100010/100011/', 'Budget 2026.csv', 'budget 2026.csv', 'csv', 0, 0, 0, 1795347797848071, 1795347797848071, NULL, NULL, 1795347797848071, 1795347797848071, 2001, 2001, 278, 500006, 'af75f4ea83c7e2d76db278ac5629fe3f83173084', 1, NULL, 'Planned and spent', '[]');
INSERT INTO "item" VALUES (100014, 0, 2001, 100011, '/100001/100010/100011/', 'Minutes', 'minutes', '', 0, 0, 0, 1795347797848195, 1795347797848195, NULL, NULL, 1795347797848195, 1795347797848195, 2001, 2001, 499, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100015, 1, 2001, 100014, '/100001/100010/100011/100014/', 'Minutes 2026-03-12.md', 'minutes 2026-03-12.md', 'md', 0, 0, 0, 1795347797848402, 1795347797848402, NULL, NULL, 1795347797848402, 1795347797848402, 2001, 2001, 274, 500007, '5db2d383777395581430a7cb92333c01eba967e9', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100016, 1, 2001, 100014, '/100001/100010/100011/100014/', 'Minutes 2026-04-09.md', 'minutes 2026-04-09.md', 'md', 0, 0, 0, 1795347797848587, 1795347797848587, NULL, NULL, 1795347797848587, 1795347797848587, 2001, 2001, 225, 500008, '2f0e055916e8247e402dc30d7f6e6f1b3aac6e9c', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100017, 0, 2001, 100011, '/100001/100010/100011/', 'Permits', 'permits', '', 0, 0, 0, 1795347797848710, 1795347797848710, NULL, NULL, 1795347797848710, 1795347797848710, 2001, 2001, 327, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100018, 1, 2001, 100017, '/100001/100010/100011/100017/', 'Noise report.txt', 'noise report.txt', 'txt', 0, 0, 0, 1795347797848762, 1795347797848762, NULL, NULL, 1795347797848762, 1795347797848762, 2001, 2001, 212, 500009, '74d9c05bdaf4d3636c972ed87520440cdda07536', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100019, 1, 2001, 100017, '/100001/100010/100011/100017/', 'Checklist.txt', 'checklist.txt', 'txt', 0, 0, 0, 1795347797848874, 1795347797848874, NULL, NULL, 1795347797848874, 1795347797848874, 2001, 2001, 115, 500010, '00b89aeec6fa8cd3cb64167622c0d085d60eac20', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100020, 1, 2001, 100011, '/100001/100010/100011/', 'First idea.md', 'first idea.md', 'md', 1, 100020, 1, 1795347797848975, 1795347797849079, 1795347797849079, 2001, 1795347797848975, 1795347797848975, 2001, 2001, 55, 500011, '6ec43214367717618ef1cd69b18abc9c37233472', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100021, 0, 2001, 100010, '/100001/100010/', 'Roof Garden', 'roof garden', '', 0, 0, 0, 1795347797849188, 1795347797849188, NULL, NULL, 1795347797849188, 1795347797849188, 2001, 2001, 404, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100022, 1, 2001, 100021, '/100001/100010/100021/', 'Plan.md', 'plan.md', 'md', 0, 0, 0, 1795347797849285, 1795347797849285, NULL, NULL, 1795347797849285, 1795347797849285, 2001, 2001, 195, 500012, 'f5acd14f7b4bc9a8dbeca1dc4e1bac581eb09483', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100023, 1, 2001, 100021, '/100001/100010/100021/', 'Plants.csv', 'plants.csv', 'csv', 0, 0, 0, 1795347797849484, 1795347797849484, NULL, NULL, 1795347797849484, 1795347797849484, 2001, 2001, 209, 500013, '696704bb94d9fffc4e8b8212f2b3718c51d6d218', 1, NULL, 'What grows where', '[]');
INSERT INTO "item" VALUES (100024, 0, 2001, 100001, '/100001/', 'Reports', 'reports', '', 0, 0, 0, 1795347797849757, 1795347797849757, NULL, NULL, 1795347797849757, 1795347797849757, 2001, 2001, 559, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100025, 0, 2001, 100024, '/100001/100024/', '2025', '2025', '', 0, 0, 0, 1795347797849895, 1795347797849895, NULL, NULL, 1795347797849895, 1795347797849895, 2001, 2001, 266, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100026, 1, 2001, 100025, '/100001/100024/100025/', 'Year 2025.md', 'year 2025.md', 'md', 0, 0, 0, 1795347797849941, 1795347797849941, NULL, NULL, 1795347797849941, 1795347797849941, 2001, 2001, 266, 500014, 'd54e28b061c465696e70b72d7b120c96e003451b', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100027, 0, 2001, 100024, '/100001/100024/', '2026', '2026', '', 0, 0, 0, 1795347797850108, 1795347797850108, NULL, NULL, 1795347797850108, 1795347797850108, 2001, 2001, 293, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100028, 1, 2001, 100027, '/100001/100024/100027/', 'Visitors Q1.csv', 'visitors q1.csv', 'csv', 0, 0, 0, 1795347797850164, 1795347797850164, NULL, NULL, 1795347797850164, 1795347797850164, 2001, 2001, 98, 500015, '20e68b95c3eee4a3c2b096ae3941fccb138b905f', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100029, 1, 2001, 100027, '/100001/100024/100027/', 'Visitors Q2.csv', 'visitors q2.csv', 'csv', 0, 0, 0, 1795347797850395, 1795347797850395, NULL, NULL, 1795347797850395, 1795347797850395, 2001, 2001, 94, 500016, '10a8d98250db39658f3b1a08436afd8ae808c5e4', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100030, 1, 2001, 100027, '/100001/100024/100027/', 'Visitors Q3.csv', 'visitors q3.csv', 'csv', 0, 0, 0, 1795347797850564, 1795347797850564, NULL, NULL, 1795347797850564, 1795347797850564, 2001, 2001, 101, 500017, '35c96787423a2e09d31fcb942cc96e953295a9a9', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100031, 0, 2001, 100001, '/100001/', 'Office', 'office', '', 0, 0, 0, 1795347797850693, 1795347797850693, NULL, NULL, 1795347797850693, 1795347797850693, 2001, 2001, 649, NULL, NULL, 1, NULL, 'What everybody needs now and then', '[]');
INSERT INTO "item" VALUES (100032, 1, 2001, 100031, '/100001/100031/', 'Handbook.md', 'handbook.md', 'md', 0, 0, 0, 1795347797850746, 1795347797850746, NULL, NULL, 1795347797850746, 1795347797850746, 2001, 2001, 294, 500018, '8ba968c5cd4f09a2e2ed45533e87637ecd95333d', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100033, 1, 2001, 100031, '/100001/100031/', 'Travel expenses.md', 'travel expenses.md', 'md', 0, 0, 0, 1795347797850864, 1795347797850864, NULL, NULL, 1795347797850864, 1795347797850864, 2001, 2001, 173, 500019, '211547d3d5bdc6c0846feffa7e133c3d4e5702ea', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100034, 1, 2001, 100031, '/100001/100031/', 'Contacts.csv', 'contacts.csv', 'csv', 0, 0, 0, 1795347797851056, 1795347797851056, NULL, NULL, 1795347797851056, 1795347797851056, 2001, 2001, 182, 500020, '69b1d9940f4225307117373b9b576bd3ce26fb0f', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100035, 0, 2001, 100001, '/100001/', 'Personal', 'personal', '', 0, 0, 0, 1795347797851173, 1795347797851173, NULL, NULL, 1795347797851173, 1795347797851173, 2001, 2001, 377, NULL, NULL, 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100036, 1, 2001, 100035, '/100001/100035/', 'Bread.md', 'bread.md', 'md', 0, 0, 0, 1795347797851222, 1795347797851222, NULL, NULL, 1795347797851222, 1795347797851222, 2001, 2001, 191, 500021, '18a2ed353afddd3c58d69476b44767288d2967f2', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100037, 1, 2001, 100035, '/100001/100035/', 'Haiku.txt', 'haiku.txt', 'txt', 0, 0, 0, 1795347797851326, 1795347797851326, NULL, NULL, 1795347797851326, 1795347797851326, 2001, 2001, 78, 500022, '6056984bc525ce0dc079d7ef14865f07937619aa', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100038, 1, 2001, 100035, '/100001/100035/', 'Reading list.txt', 'reading list.txt', 'txt', 0, 0, 0, 1795347797851427, 1795347797851427, NULL, NULL, 1795347797851427, 1795347797851427, 2001, 2001, 108, 500023, '999cb924bb11934bf3d760280ad2627d97667739', 1, NULL, '', '[]');
INSERT INTO "item" VALUES (100039, 0, 2001, 100001, '/100001/', 'Links', 'links', '', 0, 0, 0, 1795347797851527, 1795347797851527, NULL, NULL, 1795347797851527, 1795347797851527, 2001, 2001, 0, NULL, NULL, 1, NULL, 'Addresses worth keeping', '[]');
INSERT INTO "item" VALUES (100040, 2, 2001, 100039, '/100001/100039/', 'Tide table', 'tide table', '', 0, 0, 0, 1795347797851573, 1795347797851573, NULL, NULL, 1795347797851573, 1795347797851573, 2001, 2001, 0, NULL, NULL, 1, 'https://tides.example.com/harbour', 'High water, day by day', '[]');
INSERT INTO "item" VALUES (100041, 2, 2001, 100039, '/100001/100039/', 'Ferry timetable', 'ferry timetable', '', 0, 0, 0, 1795347797851619, 1795347797851619, NULL, NULL, 1795347797851619, 1795347797851619, 2001, 2001, 0, NULL, NULL, 1, 'https://ferry.example.com/timetable?line=2', '', '[]');
INSERT INTO "version" VALUES (500001, 100005, '02ed719b12d5235475004e11b52bb956710a3ea8', 868, 'Welcome.md', 1795347797846879, 2001);
INSERT INTO "version" VALUES (500002, 100007, '3c542ba3fee2b9bfa5c254ac21cfcdc88c04ebfc', 258, '1 First steps.md', 1795347797847464, 2001);
INSERT INTO "version" VALUES (500003, 100008, '04c50f500a85a429d9642e3906da254c56f1a9dc', 330, '2 Without a network.md', 1795347797847591, 2001);
INSERT INTO "version" VALUES (500004, 100009, '7ca0a286bf1f80585440b6bceb853cc5f3df25b7', 273, '3 Finding things.md', 1795347797847716, 2001);
INSERT INTO "version" VALUES (500005, 100012, '37577c593a16be029daa31ccd1aaa2cbb7d0531c', 386, 'Plan.md', 1795347797847931, 2001);
INSERT INTO "version" VALUES (500006, 100013, 'af75f4ea83c7e2d76db278ac5629fe3f83173084', 278, 'Budget 2026.csv', 1795347797848071, 2001);
INSERT INTO "version" VALUES (500007, 100015, '5db2d383777395581430a7cb92333c01eba967e9', 274, 'Minutes 2026-03-12.md', 1795347797848402, 2001);
INSERT INTO "version" VALUES (500008, 100016, '2f0e055916e8247e402dc30d7f6e6f1b3aac6e9c', 225, 'Minutes 2026-04-09.md', 1795347797848587, 2001);
INSERT INTO "version" VALUES (500009, 100018, '74d9c05bdaf4d3636c972ed87520440cdda07536', 212, 'Noise report.txt', 1795347797848762, 2001);
INSERT INTO "version" VALUES (500010, 100019, '00b89aeec6fa8cd3cb64167622c0d085d60eac20', 115, 'Checklist.txt', 1795347797848874, 2001);
INSERT INTO "version" VALUES (500011, 100020, '6ec43214367717618ef1cd69b18abc9c37233472', 55, 'First idea.md', 1795347797848975, 2001);
INSERT INTO "version" VALUES (500012, 100022, 'f5acd14f7b4bc9a8dbeca1dc4e1bac581eb09483', 195, 'Plan.md', 1795347797849285, 2001);
INSERT INTO "version" VALUES (500013, 100023, '696704bb94d9fffc4e8b8212f2b3718c51d6d218', 209, 'Plants.csv', 1795347797849484, 2001);
INSERT INTO "version" VALUES (500014, 100026, 'd54e28b061c465696e70b72d7b120c96e003451b', 266, 'Year 2025.md', 1795347797849941, 2001);
INSERT INTO "version" VALUES (500015, 100028, '20e68b95c3eee4a3c2b096ae3941fccb138b905f', 98, 'Visitors Q1.csv', 1795347797850164, 2001);
INSERT INTO "version" VALUES (500016, 100029, '10a8d98250db39658f3b1a08436afd8ae808c5e4', 94, 'Visitors Q2.csv', 1795347797850395, 2001);
INSERT INTO "version" VALUES (500017, 100030, '35c96787423a2e09d31fcb942cc96e953295a9a9', 101, 'Visitors Q3.csv', 1795347797850564, 2001);
INSERT INTO "version" VALUES (500018, 100032, '8ba968c5cd4f09a2e2ed45533e87637ecd95333d', 294, 'Handbook.md', 1795347797850746, 2001);
INSERT INTO "version" VALUES (500019, 100033, '211547d3d5bdc6c0846feffa7e133c3d4e5702ea', 173, 'Travel expenses.md', 1795347797850864, 2001);
INSERT INTO "version" VALUES (500020, 100034, '69b1d9940f4225307117373b9b576bd3ce26fb0f', 182, 'Contacts.csv', 1795347797851056, 2001);
INSERT INTO "version" VALUES (500021, 100036, '18a2ed353afddd3c58d69476b44767288d2967f2', 191, 'Bread.md', 1795347797851222, 2001);
INSERT INTO "version" VALUES (500022, 100037, '6056984bc525ce0dc079d7ef14865f07937619aa', 78, 'Haiku.txt', 1795347797851326, 2001);
INSERT INTO "version" VALUES (500023, 100038, '999cb924bb11934bf3d760280ad2627d97667739', 108, 'Reading list.txt', 1795347797851427, 2001);
INSERT INTO "metadata_template" VALUES (1, '00000000-0000-4000-8000-000000000001', NULL, 'properties', 'Properties', 0, 0, '[]', 0);
INSERT INTO "document" VALUES (100005, 'Welcome.md', 'Start here', '# Welcome to your drive

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
', '', '[]');
INSERT INTO "document" VALUES (100006, 'Getting started', 'Five minutes with the drive', '', '', '[]');
INSERT INTO "document" VALUES (100007, '1 First steps.md', '', '# First steps

1. Save a note: `echo "hello" > hello.txt` in this folder.
2. Ask where it is: `cmsfs status`. It is uploaded as soon as you stop changing it.
3. Find it by what it says: `cmsfs find hello`.
4. Delete it, look into `.trash`, and move it back.
', '', '[]');
INSERT INTO "document" VALUES (100008, '2 Without a network.md', '', '# Without a network

Folders that you have seen stay visible, files that you have read stay readable, and what you change is
kept on this disk until the service can be reached again. Nothing that was saved is ever dropped.

`cmsfs pin "Projects/Harbour Bridge"` keeps a whole folder on this disk, also what you have not read yet.
', '', '[]');
INSERT INTO "document" VALUES (100009, '3 Finding things.md', '', '# Finding things

`cmsfs find budget` looks at names, descriptions and the text of files.

- "exact words" in double quotes are found as they stand.
- AND, OR and NOT in upper case combine words: `bridge AND NOT budget`.
- Several words without them mean any of the words.
', '', '[]');
INSERT INTO "document" VALUES (100010, 'Projects', '', '', '', '[]');
INSERT INTO "document" VALUES (100011, 'Harbour Bridge', 'Renewal of the footbridge', '', '', '[]');
INSERT INTO "document" VALUES (100012, 'Plan.md', 'Phases and who does them', '# Harbour Bridge: plan

Renewal of the footbridge between the fish market and the old lighthouse.

| Phase | From | To | Who |
|---|---|---|---|
| Survey | January | February | Ada |
| Design | March | May | Ben |
| Permits | April | July | Cleo |
| Building | August | November | Ben |

Open: the colour of the railing. The town prefers green, the fishermen prefer anything but green.
', '', '[]');
INSERT INTO "document" VALUES (100013, 'Budget 2026.csv', 'Planned and spent', 'position,planned,spent,remark
Survey,12000,11480,finished
Design,38000,29100,second draft is out
Permits,6500,2100,two of five granted
Steel,145000,0,offers until May
Timber,52000,0,oak or larch
Railing,18000,0,colour to be decided
Lighting,9500,0,
Reserve,25000,0,do not touch
', '', '[]');
INSERT INTO "document" VALUES (100014, 'Minutes', '', '', '', '[]');
INSERT INTO "document" VALUES (100015, 'Minutes 2026-03-12.md', '', '# Minutes, 12 March

Present: Ada, Ben, Cleo.

- The survey is finished; the northern pillar is sounder than feared.
- Ben shows the first draft. The curve stays.
- Cleo asks for the noise report before April.
- Next meeting: 9 April, at the lighthouse if it does not rain.
', '', '[]');
INSERT INTO "document" VALUES (100016, 'Minutes 2026-04-09.md', '', '# Minutes, 9 April

Present: Ada, Cleo. Ben by telephone, from the ferry.

- It rained. We met in the market hall.
- The noise report is in `Permits/`.
- Steel: three offers, opened together in May.
- Railing: put off again.
', '', '[]');
INSERT INTO "document" VALUES (100017, 'Permits', '', '', '', '[]');
INSERT INTO "document" VALUES (100018, 'Noise report.txt', '', 'Noise report, summary

Measured on four days at the eastern quay, between seven and nineteen hours.
Gulls exceed every limit that applies to building sites.
The building site is expected to stay below the gulls.
', '', '[]');
INSERT INTO "document" VALUES (100019, 'Checklist.txt', '', '[x] Water authority
[x] Monument protection
[ ] Harbour master
[ ] Fire brigade
[ ] Neighbours on the eastern quay
', '', '[]');
INSERT INTO "document" VALUES (100020, 'First idea.md', '', '# Harbour Bridge: first idea

A tunnel. (It was late.)
', '', '[]');
INSERT INTO "document" VALUES (100021, 'Roof Garden', '', '', '', '[]');
INSERT INTO "document" VALUES (100022, 'Plan.md', '', '# Roof garden

Twelve beds, one hive, one bench. The lift carries 400 kg: soil goes up in the mornings.

Order in which beds are planted: herbs, beans, tomatoes, then whatever the seed shop has.
', '', '[]');
INSERT INTO "document" VALUES (100023, 'Plants.csv', 'What grows where', 'bed,plant,sown,harvest
1,thyme,March,all year
2,parsley,March,June
3,chives,March,May
4,runner beans,May,August
5,peas,April,July
6,tomatoes,February,August
7,courgettes,May,July
8,strawberries,last year,June
', '', '[]');
INSERT INTO "document" VALUES (100024, 'Reports', '', '', '', '[]');
INSERT INTO "document" VALUES (100025, '2025', '', '', '', '[]');
INSERT INTO "document" VALUES (100026, 'Year 2025.md', '', '# The year in short

More visitors than ever in summer, fewer than hoped in November. The bridge project took a third of all
hours and will take half of them next year. The roof garden paid for its own soil.

Figures by quarter stand in the tables beside this file.
', '', '[]');
INSERT INTO "document" VALUES (100027, '2026', '', '', '', '[]');
INSERT INTO "document" VALUES (100028, 'Visitors Q1.csv', '', 'month,visitors,tickets,revenue
January,1204,980,7840
February,1177,942,7536
March,1630,1325,10600
', '', '[]');
INSERT INTO "document" VALUES (100029, 'Visitors Q2.csv', '', 'month,visitors,tickets,revenue
April,2015,1710,13680
May,2480,2102,16816
June,3127,2690,21520
', '', '[]');
INSERT INTO "document" VALUES (100030, 'Visitors Q3.csv', '', 'month,visitors,tickets,revenue
July,4408,3951,31608
August,4721,4260,34080
September,2886,2504,20032
', '', '[]');
INSERT INTO "document" VALUES (100031, 'Office', 'What everybody needs now and then', '', '', '[]');
INSERT INTO "document" VALUES (100032, 'Handbook.md', '', '# Handbook

How we name files: what it is, then of when. `Minutes 2026-03-12.md`, not `new new final (2).md`.

How we keep them: the service keeps old versions, so nobody needs copies called `old`.

Whom to ask: Ada about money, Ben about bridges, Cleo about everything that needs a signature.
', '', '[]');
INSERT INTO "document" VALUES (100033, 'Travel expenses.md', '', '# Travel expenses

Train before plane, second class before first. Keep receipts; photographs of receipts are receipts.
Meals count up to 28 a day. The ferry is always paid.
', '', '[]');
INSERT INTO "document" VALUES (100034, 'Contacts.csv', '', 'name,role,telephone
Ada Example,administration,555-0101
Ben Sample,engineering,555-0102
Cleo Specimen,permits,555-0103
Harbour master,harbour,555-0110
Market hall,caretaker,555-0123
', '', '[]');
INSERT INTO "document" VALUES (100035, 'Personal', '', '', '', '[]');
INSERT INTO "document" VALUES (100036, 'Bread.md', '', '# Bread for the Friday table

500 g flour, 350 g water, 10 g salt, a little yeast, and a night in the cold.
Hot oven, a lid for half an hour, then without it until it is as dark as you dare.
', '', '[]');
INSERT INTO "document" VALUES (100037, 'Haiku.txt', '', 'Tide comes in at noon.
The bridge is still a drawing.
Gulls inspect the plan.
', '', '[]');
INSERT INTO "document" VALUES (100038, 'Reading list.txt', '', '- A book about bridges, returned late
- The timetable of the ferry
- "How to keep bees", borrowed from Cleo
', '', '[]');
INSERT INTO "document" VALUES (100039, 'Links', 'Addresses worth keeping', '', '', '[]');
INSERT INTO "document" VALUES (100040, 'Tide table', 'High water, day by day', '', '', '[]');
INSERT INTO "document" VALUES (100041, 'Ferry timetable', '', '', '', '[]');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('metadata_template', 1);
INSERT INTO sqlite_sequence VALUES ('user', 2004);
INSERT INTO sqlite_sequence VALUES ('item', 100041);
INSERT INTO sqlite_sequence VALUES ('version', 500023);
INSERT INTO sqlite_sequence VALUES ('exemption', 700000);
INSERT INTO sqlite_sequence VALUES ('legal_hold_policy', 710000);
INSERT INTO sqlite_sequence VALUES ('legal_hold_assignment', 720000);
INSERT INTO sqlite_sequence VALUES ('retention_policy', 730000);
INSERT INTO sqlite_sequence VALUES ('retention_assignment', 740000);
INSERT INTO word (word) VALUES ('rebuild');
CREATE INDEX token_by_end ON token (expires_at);
CREATE UNIQUE INDEX item_name ON item (parent, name_key) WHERE status = 0;
CREATE INDEX item_child ON item (parent, status, kind, name_key, id);
CREATE INDEX item_below ON item (path, status, modified_at, created_at, kind);
CREATE INDEX item_created ON item (owner, status, created_at, modified_at, kind);
CREATE INDEX item_modified ON item (owner, status, modified_at, created_at, kind);
CREATE INDEX item_trashed ON item (owner, trashed_at) WHERE status = 1;
CREATE INDEX folder_modified ON item (owner, status, modified_at, created_at) WHERE kind = 0;
CREATE INDEX version_of_file ON version (file, id);
CREATE INDEX version_blob ON version (sha1);
CREATE UNIQUE INDEX template_key ON metadata_template (coalesce(enterprise, 0), lower(key));
CREATE INDEX metadata_instance_of ON metadata_instance (template, item);
CREATE UNIQUE INDEX legal_hold_name ON legal_hold_policy (enterprise, name_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX legal_hold_target ON legal_hold_assignment (policy, type, target) WHERE deleted_at IS NULL;
CREATE INDEX legal_hold_kept_version ON legal_hold_kept (version);
CREATE INDEX retention_kept_version ON retention_kept (version);
CREATE TRIGGER version_added AFTER INSERT ON version BEGIN
  UPDATE user SET space_used = space_used + NEW.size WHERE id = (SELECT owner FROM item WHERE id = NEW.file);
END;
CREATE TRIGGER item_purged BEFORE DELETE ON item BEGIN
  UPDATE user SET space_used = space_used - (SELECT coalesce(sum(size), 0) FROM version WHERE file = OLD.id)
    WHERE id = OLD.owner;
  DELETE FROM document WHERE id = OLD.id;
END;
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
PRAGMA user_version=1;
