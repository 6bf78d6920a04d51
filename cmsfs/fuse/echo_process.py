"""The process that makes the kernel tell watchers what was changed elsewhere.

Run as a program of its own (`echo_helper` starts it), with nothing but the standard library's built-in parts.
It goes through the mount as any program does, and makes there what has happened already: the daemon answers
it without doing anything, and the kernel tells those who watch the folder.

Read from standard input, each as its length in four bytes and fields parted by NUL:

    S dev                                           who watches something on this device
    D dev, path, number, path 2, number 2, tasks    do these, each of four fields: kind, name, name 2, size

Written to standard output, a line each: the numbers of the watched inodes; an errno for each task, 0 if it
went well.

Rule: nothing is touched that is not on the drive's device: each call goes through a folder that was looked at
after it was opened, never through a path alone.
"""

# Without `pathlib`, whose import would be most of the start.
# ruff: noqa: PTH115, PTH123, PTH208

import os
import sys

CREATE, MKDIR, UNLINK, RMDIR, RENAME, MODIFY, TOUCH = b"c", b"m", b"u", b"r", b"n", b"w", b"t"
PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FIELDS = 4  # of a task


def main() -> None:
    """Serve until the daemon hangs up."""
    while head := _exactly(4):
        kind, *fields = _exactly(int.from_bytes(head, "big")).split(b"\0")
        if kind == b"S":
            answer = b" ".join(b"%d" % ino for ino in watched(int(fields[0])))
        else:
            answer = b" ".join(b"%d" % number for number in _do(fields))
        _write(answer + b"\n")


def _exactly(size: int) -> bytes:
    got = b""
    while len(got) < size:
        if not (more := os.read(0, size - len(got))):
            sys.exit(0)
        got += more
    return got


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


# ---- who watches -------------------------------------------------------------------------------


def watched(device: int) -> set[int]:
    """The inodes of a device that processes of this user watch, by inotify or fanotify."""
    found: set[int] = set()
    for pid in os.listdir("/proc"):
        if pid.isdecimal():
            for text in _watches(f"/proc/{pid}"):
                found |= inodes(text, device)
    return found


def _watches(process: str) -> list[bytes]:
    """What the kernel says of each watching descriptor of a process; nothing of one that is not ours."""
    texts = []
    try:
        descriptors = os.listdir(f"{process}/fd")
    except OSError:
        return []
    for fd in descriptors:
        try:
            if os.readlink(f"{process}/fd/{fd}") not in ("anon_inode:inotify", "anon_inode:[fanotify]"):
                continue
            with open(f"{process}/fdinfo/{fd}", "rb", buffering=0) as file:
                texts.append(file.readall())
        except OSError:
            continue
    return texts


def inodes(text: bytes, device: int) -> set[int]:
    """The inodes of a device that stand in one descriptor's `fdinfo`."""
    # The kernel's own notation there: twenty bits of the minor number.
    sdev = b"sdev:%x" % (os.major(device) << 20 | os.minor(device))
    found = set()
    for line in text.splitlines():
        words = line.split()
        if sdev in words:
            found |= {int(word[4:], 16) for word in words if word.startswith(b"ino:")}
    return found


# ---- what is made once more --------------------------------------------------------------------


def _do(fields: list[bytes]) -> list[int]:
    """The outcome of each task of a folder, and of another one for moves."""
    device, path, ino, other_path, other_ino, *rest = fields
    tasks = [rest[at : at + _FIELDS] for at in range(0, len(rest), _FIELDS)]
    folders: list[int] = []
    try:
        folders.append(_folder(int(device), path, int(ino)))
        if other_path:
            folders.append(_folder(int(device), other_path, int(other_ino)))
        return [_outcome(folders, task) for task in tasks]
    except OSError as error:
        return [error.errno or -1] * len(tasks)
    finally:
        for folder in folders:
            os.close(folder)


def _folder(device: int, path: bytes, ino: int) -> int:
    folder = os.open(path, PATH_ONLY | os.O_NOFOLLOW)
    found = os.fstat(folder)
    if (found.st_dev, found.st_ino) == (device, ino):
        return folder
    os.close(folder)
    raise FileNotFoundError(2, "something else is there")


def _outcome(folders: list[int], task: list[bytes]) -> int:
    try:
        try:
            _perform(folders[0], folders[-1], *task)
        except FileNotFoundError:
            if task[0] not in (UNLINK, RMDIR, RENAME):
                raise
            # The kernel may remember that the name is gone.  Who makes it has it asked once more, and is
            # told that it is there.
            try:
                os.mkdir(task[1], dir_fd=folders[0])
            except FileExistsError:
                pass
            _perform(folders[0], folders[-1], *task)
    except OSError as error:
        return error.errno or -1
    return 0


def _perform(folder: int, other: int, kind: bytes, name: bytes, name2: bytes, size: bytes) -> None:
    if kind == CREATE:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(name, flags, 0o600, dir_fd=folder))
    elif kind == MKDIR:
        os.mkdir(name, 0o700, dir_fd=folder)
    elif kind == UNLINK:
        os.unlink(name, dir_fd=folder)
    elif kind == RMDIR:
        os.rmdir(name, dir_fd=folder)
    elif kind == RENAME:
        os.rename(name, name2, src_dir_fd=folder, dst_dir_fd=other)
    elif kind == TOUCH:
        os.utime(name, dir_fd=folder, follow_symlinks=False)
    elif kind == MODIFY:
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=folder)
        try:
            os.ftruncate(file, int(size))
        finally:
            os.close(file)


if __name__ == "__main__":
    main()
