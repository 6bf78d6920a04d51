"""Default name patterns of files that stay local and are never uploaded.

Programs create such files beside documents for their own use.  Each is a case-insensitive shell pattern for a
file's name.

Rule: a pattern never matches a name that a user may give to a document: so no `*.lock` (Cargo.lock), no
`*-journal`, no `sed??????`, no `.*.??????` (.bashrc.backup); such temporary files are renamed or removed
before they would be uploaded.
"""

# The folder of the drive for items shared by others; the service has no such folder.
SHARED = "Shared with me"

DEFAULT = (
    ".~lock.*#",  # LibreOffice: who has the document open
    "~$*",  # Microsoft Office: the same
    "*.laccdb",  # Microsoft Access: the same
    "*.idlk",  # InDesign: the same
    "*.dwl",  # AutoCAD: the same
    "*.dwl2",
    ".#*",  # emacs: the same, a symbolic link that leads nowhere
    "#*#",  # emacs: what is not saved yet
    ".*.sw?",  # vim: what is not saved yet
    ".*.swpx",  # vim: whether the file system can do it
    "4913",  # vim: whether the folder can be written
    ".*.kate-swp",  # Kate: what is not saved yet
    "*~",  # many editors: the version before
    "*.tmp",  # Office, LibreOffice and others: the version to come
    ".goutputstream-*",  # GNOME: the version to come
    "*.part",  # Firefox: a download that is not complete
    "*.crdownload",  # Chromium: the same
    ".Trash",  # desktops: what was thrown away (refused at the root, where delete is the service's trash)
    ".Trash-*",
    ".fuse_hidden*",  # kernels: deleted while open
    ".nfs*",
    ".DS_Store",  # macOS: how a folder was looked at
    "Thumbs.db",  # Windows: the same
)
