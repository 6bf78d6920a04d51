"""Examples of every command, as its help and its manual page show them.

Rule: each example can be run as it is, given these files; it has a comment if its effect is not obvious.
"""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "mount": (
        "cmsfs mount",
        "cmsfs mount --enable                      # now and at every login",
        "cmsfs mount ~/reports --folder /Reports --read-only --ttl 8h",
        "cmsfs mount https://files.example.com/s/WORD ~/shared    # without an account",
    ),
    "umount": (
        "cmsfs umount",
        "cmsfs umount --force                      # although files are open",
    ),
    "open": ("cmsfs open", "cmsfs open --web /Plan.docx               # at the service, in the browser"),
    "ui": ("cmsfs ui", "cmsfs ui conflicts"),
    "tray": ("cmsfs tray",),
    "menu": ("cmsfs menu versions ~/cmsfs/Plan.xlsx",),
    "demo": ("cmsfs demo", "cmsfs demo ~/trial"),
    "pin": ("cmsfs pin ~/cmsfs/Projects",),
    "unpin": ("cmsfs unpin ~/cmsfs/Projects",),
    "pins": ("cmsfs pins",),
    "free": ("cmsfs free ~/cmsfs/Videos", "cmsfs free --unpin ~/cmsfs/Projects"),
    "search": (
        "cmsfs search budget type:file modified:2026-03",
        'cmsfs search "annual report" --in /Finance --long',
        "cmsfs search --save Contracts in:Legal ext:pdf,docx",
    ),
    "get": ("cmsfs get /Documents/a.txt", "cmsfs get /Photos ~/photos --exclude '*.raw'"),
    "put": ("cmsfs put report.pdf /Reports/", "cmsfs put ~/photos /Photos --exclude '.*'"),
    "copy": ("cmsfs copy ~/cmsfs/Videos/intro.mp4 ~/cmsfs/Archive", "cmsfs copy /Projects /Templates/2027"),
    "text": ("cmsfs text /Legal/Contract.docx",),
    "versions": (
        "cmsfs versions /Documents/a.txt",
        "cmsfs versions /Documents/a.txt --restore 12345",
        "cmsfs versions /Documents/a.txt --get 12345 --output old.txt",
    ),
    "restore": (
        "cmsfs restore /Projects --as-of 2h --dry-run",
        "cmsfs restore /Projects --as-of yesterday",
        "cmsfs restore --undo",
    ),
    "log": ("cmsfs log /Projects", "cmsfs log --limit 10"),
    "watch": ("cmsfs watch /Inbox", "cmsfs watch /Inbox --exec 'make -C ~/inbox'"),
    "trash": (
        "cmsfs trash list",
        "cmsfs trash restore a.txt --to /Documents",
        "cmsfs trash purge a.txt",
        "cmsfs trash empty",
    ),
    "favorites": ("cmsfs favorites add /Projects", "cmsfs favorites list"),
    "lock": ("cmsfs lock /Plan.xlsx --for 2h",),
    "unlock": ("cmsfs unlock /Plan.xlsx",),
    "link": ("cmsfs link https://www.example.com /Links/Example",),
    "share": (
        "cmsfs share /Documents/a.txt",
        "cmsfs share /Documents/a.txt --access company --expires 14d",
        "cmsfs share /Documents/a.txt --remove",
    ),
    "invite": ("cmsfs invite /Projects ada@example.com --role editor",),
    "people": ("cmsfs people /Projects", "cmsfs people /Projects --remove ada@example.com"),
    "shared": ("cmsfs shared", "cmsfs shared --accept Team"),
    "status": (
        "cmsfs status",
        "cmsfs status ~/cmsfs/Plan.xlsx            # of one item",
        "cmsfs status --watch",
    ),
    "sync": ("cmsfs sync", "cmsfs sync --full                         # compare everything with the service"),
    "pause": ("cmsfs pause", "cmsfs pause --for 1h"),
    "resume": ("cmsfs resume",),
    "conflicts": ("cmsfs conflicts",),
    "retry": ("cmsfs retry", "cmsfs retry ~/cmsfs/Plan.xlsx"),
    "discard": ("cmsfs discard ~/cmsfs/Plan.xlsx",),
    "guard": ("cmsfs guard", "cmsfs guard allow"),
    "missing": ("cmsfs missing", "cmsfs missing --keep"),
    "adopt": ("cmsfs adopt",),
    "setup": ("cmsfs setup",),
    "login": (
        "cmsfs login https://files.example.com --app app.json",
        "cmsfs login https://files.example.com --client-credentials app.json",
        "cmsfs --account work login box --app app.json",
    ),
    "logout": ("cmsfs logout", "cmsfs --account work logout --forget"),
    "whoami": ("cmsfs whoami",),
    "token": ("cmsfs token downscope item_download --resource /Reports",),
    "users": (
        "cmsfs users list",
        'cmsfs users create "Dora Doe" --login dora@example.com --space-amount 10GB',
        "cmsfs users show me",
    ),
    "templates": ("cmsfs templates list", "cmsfs templates show contract"),
    "retention": ("cmsfs retention list --fields policy_name,created_by.name",),
    "holds": ("cmsfs holds list",),
    "exemptions": ("cmsfs exemptions list",),
    "doctor": ("cmsfs doctor", "cmsfs doctor --bundle report.zip"),
    "config": (
        "cmsfs config show",
        "cmsfs config set cache_bytes 50_000_000_000",
        "cmsfs config check",
    ),
    "upgrade": ("cmsfs upgrade",),
    "fsck": ("cmsfs fsck", "cmsfs fsck --repair"),
    "log-level": ("cmsfs log-level DEBUG",),
    "serve": (
        "cmsfs serve --data ~/service --port 8472",
        "cmsfs serve --database postgresql://cmsfs@db.example.com/cmsfs --blobs s3://bucket/contents",
        "cmsfs serve --enterprise-file ours.toml --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem",
    ),
    "service": (
        "cmsfs service check --data ~/service",
        "cmsfs service check --data ~/company --blobs s3://bucket/contents --quick --repair",
        "cmsfs service move --data ~/service --to-data ~/company --to-blobs s3://bucket/contents",
    ),
}


def epilog(name: str) -> str:
    """Return the examples of a command, which click prints below its options."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])
