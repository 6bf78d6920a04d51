"""How programs that cannot run in a test save a document: their calls, as they were seen with strace on a
FUSE drive or are laid down in the library that makes them.

Each is a function of the document's path, which exists; `SAVES` says beside it which files stay that are
nothing of the program's own.
"""

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BYTES = b"what was typed since\n" * 100

NOREPLACE, EXCHANGE = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old: Path, new: Path, flags: int) -> None:
    """rename(2) with flags, which Python does not have."""
    if _libc.renameat2(-100, bytes(old), -100, bytes(new), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(old))


def write(path: Path, data: bytes, flags: int, mode: int = 0o644, *, sync: bool = False) -> None:
    fd = os.open(path, os.O_WRONLY | flags, mode)
    try:
        for start in range(0, len(data), 1000):
            os.write(fd, data[start : start + 1000])
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def fresh(path: Path, data: bytes = BYTES, mode: int = 0o600, *, sync: bool = False) -> Path:
    """A new file, as mkstemp makes one."""
    write(path, data, os.O_CREAT | os.O_EXCL, mode, sync=sync)
    return path


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """A file that says who has the document open."""
    fresh(path, b",user,host,21.11.2026 10:00,file:///home/user;", 0o666)
    yield
    path.unlink()


def glib(document: Path) -> None:
    """gedit, mousepad, GNOME Text Editor, gio: g_file_replace."""
    fd = os.open(document, os.O_WRONLY)
    before = os.fstat(fd)
    temporary = document.with_name(f".goutputstream-{secrets.token_hex(3).upper()}")
    new = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    os.fchown(new, before.st_uid, before.st_gid)
    os.fchmod(new, before.st_mode & 0o777)
    os.write(new, BYTES)
    os.fsync(new)
    os.close(new)
    temporary.rename(document)
    os.close(fd)


def glib_with_backup(document: Path) -> None:
    """The same, with backups on: a hard link, or what there is instead."""
    backup = document.with_name(f"{document.name}~")
    try:
        os.link(document, backup)
    except OSError as error:
        assert error.errno == errno.EPERM
        fresh(backup, document.read_bytes())
    glib(document)


def libreoffice(document: Path) -> None:
    with lock(document.with_name(f".~lock.{document.name}#")):
        before = document.stat()
        temporary = fresh(document.with_name("lu8431q2f.tmp"), sync=True)
        temporary.rename(document)
        os.chown(document, before.st_uid, before.st_gid)
        document.chmod(before.st_mode & 0o777)
        fd = os.open(document, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def libreoffice_with_backup(document: Path) -> None:
    """Always create a backup copy: it is made first, in a folder of its own or beside the document."""
    with lock(document.with_name(f".~lock.{document.name}#")):
        fresh(document.with_suffix(".bak"), document.read_bytes())
        fresh(document.with_name("lu8431q2g.tmp"), sync=True).rename(document)


def word(document: Path) -> None:
    """Microsoft Word, through Wine or a share."""
    with lock(document.with_name(f"~${document.name[2:]}")):
        new = fresh(document.with_name("~WRD0000.tmp"))
        old = document.with_name("~WRL0005.tmp")
        document.rename(old)
        new.rename(document)
        old.unlink()


def excel(document: Path) -> None:
    """Microsoft Excel and PowerPoint: eight digits, without a suffix for the new, with .tmp for the old."""
    with lock(document.with_name(f"~${document.name}")):
        new = fresh(document.with_name("5C3D2000"))
        old = document.with_name("9F1E2A37.tmp")
        document.rename(old)
        new.rename(document)
        old.unlink()


def office_dialog(document: Path) -> None:
    """Save as, under the same name, in a file dialog: the old file is deleted first."""
    document.unlink()
    with lock(document.with_name(f"~${document.name}")):
        write(document, BYTES, os.O_CREAT | os.O_EXCL)


def replace_file(document: Path) -> None:
    """ReplaceFile of Windows with a backup, as Wine carries it out."""
    new = fresh(document.with_name(f"{document.stem}.new"))
    backup = document.with_name(f"{document.name}~RF1a2b3c.TMP")
    document.rename(backup)
    new.rename(document)
    backup.unlink()


def vscode(document: Path) -> None:
    """Visual Studio Code: into the file, which is cut first; its mode is looked at and set."""
    document.stat()
    fd = os.open(document, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.write(fd, BYTES)
    os.fdatasync(fd)
    os.close(fd)
    document.chmod(document.stat().st_mode & 0o777)


def kate(document: Path) -> None:
    """Kate, KWrite and what else uses QSaveFile."""
    swap = fresh(document.with_name(f".{document.name}.kate-swp"), b"")
    temporary = fresh(document.with_name(f"{document.name}.{secrets.token_hex(3)}"), b"")
    temporary.chmod(document.stat().st_mode & 0o777)
    write(temporary, BYTES, 0, sync=True)
    temporary.rename(document)
    swap.unlink()


def jetbrains(document: Path) -> None:
    """IntelliJ and its family, safe write: a copy aside, the new bytes beside, and two renames."""
    new = fresh(document.with_name(f"{document.name}___jb_tmp___"))
    old = document.with_name(f"{document.name}___jb_old___")
    document.rename(old)
    new.rename(document)
    old.unlink()


def nano(document: Path) -> None:
    """nano with locking and backups on: a copy first, then into the file, which is cut."""
    with lock(document.with_name(f".{document.name}.swp")):
        shutil.copyfile(document, document.with_name(f"{document.name}~"))
        write(document, BYTES, os.O_CREAT | os.O_TRUNC)


def emacs(document: Path) -> None:
    link = document.with_name(f".#{document.name}")
    link.symlink_to("user@host.1234:1700000000")
    document.rename(document.with_name(f"{document.name}~"))
    write(document, BYTES, os.O_CREAT | os.O_TRUNC, 0o666)
    link.unlink()
    document.chmod(0o644)


def vim(document: Path) -> None:
    """vim with backupcopy=no, step by step."""
    swap = document.with_name(f".{document.name}.swp")
    for probe in (f".{document.name}.swp", f".{document.name}.swpx"):
        fresh(document.with_name(probe), b"").unlink()
    fresh(swap, b"b0VIM 9.0")
    probe_4913 = fresh(document.with_name("4913"), b"", 0o100644)
    os.chown(probe_4913, os.getuid(), os.getgid())
    probe_4913.unlink()
    backup = document.with_name(f"{document.name}~")
    document.rename(backup)
    write(document, BYTES, os.O_CREAT | os.O_TRUNC, 0o664, sync=True)
    document.chmod(0o644)
    backup.unlink()
    swap.unlink()


def download(document: Path) -> None:
    """Firefox: the name is taken, the bytes come into .part, which is renamed over it."""
    document.unlink()
    write(document, b"", os.O_CREAT | os.O_EXCL)
    part = document.with_name(f"K3f9Q-{document.name}.part")
    for start in range(0, len(BYTES), 500):
        write(part, BYTES[start : start + 500], os.O_CREAT | os.O_APPEND)
    part.rename(document)


def chromium_download(document: Path) -> None:
    part = fresh(document.with_name("Unconfirmed 731337.crdownload"))
    if document.exists():
        document.unlink()
    renameat2(part, document, NOREPLACE)


def lockfile(document: Path) -> None:
    """git, apt, passwd and many daemons: `f.lock` is both the lock and the next version."""
    fresh(document.with_name(f"{document.name}.lock"), mode=0o666).rename(document)


def link_and_unlink(document: Path) -> None:
    """Published by a hard link, so as not to replace anything; where that is refused, by a rename."""
    temporary = fresh(document.with_name(".tmp_8841"))
    document.unlink()
    try:
        os.link(temporary, document)
    except OSError as error:
        assert error.errno == errno.EPERM
        temporary.rename(document)
    else:
        temporary.unlink()


def exchange(document: Path) -> None:
    """The new file and the old one change places, and the old one goes."""
    new = fresh(document.with_name(f".{document.name}.new"))
    renameat2(new, document, EXCHANGE)
    new.unlink()


def python_atomic(document: Path) -> None:
    """tempfile in the same folder, fsync of file and folder, os.replace."""
    temporary = fresh(document.with_name(f"tmp{secrets.token_hex(4)}"), sync=True)
    temporary.replace(document)
    folder = os.open(document.parent, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def in_place(document: Path) -> None:
    """A database: a few bytes in the middle and the end cut off."""
    fd = os.open(document, os.O_RDWR)
    os.pwrite(fd, b"XX", 3)
    os.ftruncate(fd, 10)
    os.fsync(fd)
    os.close(fd)


def twice(document: Path) -> None:
    """Impatience: two saves in a moment are one version."""
    glib(document)
    vscode(document)


SAVES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "GLib": (glib, set()),
    "GLib with a backup": (glib_with_backup, set()),
    "LibreOffice": (libreoffice, set()),
    "LibreOffice with a backup": (libreoffice_with_backup, {"document.bak"}),
    "Word": (word, set()),
    "Excel": (excel, set()),
    "Office's dialog": (office_dialog, set()),
    "ReplaceFile": (replace_file, set()),
    "Visual Studio Code": (vscode, set()),
    "Kate": (kate, set()),
    "JetBrains": (jetbrains, set()),
    "nano": (nano, set()),
    "emacs, recorded": (emacs, set()),
    "vim, recorded": (vim, set()),
    "Firefox": (download, set()),
    "Chromium": (chromium_download, set()),
    "a lock file": (lockfile, set()),
    "link and unlink": (link_and_unlink, set()),
    "exchange": (exchange, set()),
    "Python, with care": (python_atomic, set()),
    "in place": (in_place, set()),
    "twice": (twice, set()),
}
