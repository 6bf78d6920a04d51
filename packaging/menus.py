"""The files by which file managers without an extension of ours show the entries of `cmsfs menu`.

`files()` gives each as its place in share/ and its text: service menus for Dolphin and others of KIO, and
actions for PCManFM and others (DES-EMA, the extension of desktop entries for menus and actions).

Rule: a path is given as an argument of its own, never as a part of a shell's line: others choose names.
"""

from collections.abc import Iterator

from cmsfs.cli.desktop.menu_entries import ENTRIES, TITLE, FileMenuEntry

_SERVICE_MENU = """[Desktop Entry]
Type=Service
Name={title}
ServiceTypes=KonqPopupMenu/Plugin
X-KDE-ServiceTypes=KonqPopupMenu/Plugin
X-KDE-Priority=TopLevel
X-KDE-Submenu={title}
X-KDE-Protocols=file
{limits}MimeType={types}
Icon=cmsfs
Actions={actions}
"""

# Everything that has bytes is an octet-stream, too.
_FILES = "application/octet-stream;"
_ALL = f"{_FILES}inode/directory;"

# PCManFM 1.3 shows the tooltip of a menu as its name.
_MENU = """[Desktop Entry]
Type=Menu
Name={title}
Tooltip={title}
Icon=cmsfs
ItemsList={items}
ShowIfTrue={condition}
"""

# Whether the chosen item is on a drive: without looking at it, and for file managers with a shell and without
# one.  `%f` is one word there, whatever is in it; `%d` would be none, for PCManFM.
_ON_DRIVE = "sh -c 'findmnt -n -t fuse.cmsfs -T \"$0\" > /dev/null && echo true' %f"

_ACTION = """[Desktop Entry]
Type=Action
Name={label}
Icon={icon}
TargetContext=true
Profiles=one;

[X-Action-Profile one]
{types}Exec=cmsfs menu {action} {paths}
"""


def files() -> Iterator[tuple[str, str]]:
    """`(place, text)` of every file."""
    kinds = {
        "many": [one for one in ENTRIES if one.many],
        "single": [one for one in ENTRIES if not one.many and not one.files],
        "file": [one for one in ENTRIES if one.files],
    }
    for kind, entries in kinds.items():
        yield f"kio/servicemenus/cmsfs-{kind}.desktop", _service_menu(entries)
    items = "".join(f"{_id(one)};" for one in ENTRIES)
    menu = _MENU.format(title=TITLE, items=items, condition=_ON_DRIVE)
    yield "file-manager/actions/cmsfs.desktop", menu
    for one in ENTRIES:
        yield f"file-manager/actions/{_id(one)}.desktop", _action(one)


def _service_menu(entries: list[FileMenuEntry]) -> str:
    first = entries[0]
    limits = "" if first.many else "X-KDE-RequiredNumberOfUrls=1\nX-KDE-MaxNumberOfUrls=1\n"
    actions = "".join(f"{one.action};" for one in entries)
    types = _FILES if first.files else _ALL
    text = _SERVICE_MENU.format(title=TITLE, limits=limits, types=types, actions=actions)
    for one in entries:
        text += f"\n[Desktop Action {one.action}]\nName={one.label}\nIcon={one.icon}\n"
        text += f"Exec=cmsfs menu {one.action} {'%F' if one.many else '%f'}\n"
    return text


def _action(one: FileMenuEntry) -> str:
    return _ACTION.format(
        label=one.label,
        icon=one.icon,
        action=one.action,
        types="MimeTypes=all/allfiles;\n" if one.files else "",
        paths="%F" if one.many else "%f",
    )


def _id(one: FileMenuEntry) -> str:
    return f"cmsfs-{one.action}"
