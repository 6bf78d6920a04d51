"""The helper program that makes the kernel raise inotify events for remote changes.

It runs as a separate process (`echo_helper` starts it) and imports only built-in parts of the standard
library.  It repeats on the mount, like any program, changes that have already happened: the daemon answers
its requests without doing anything, and the kernel notifies the watchers of the folder.

Requests on standard input, each preceded by its length in four bytes, with NUL-separated fields:

    S dev                                         find the watched inodes of this device
    D dev, path, inode, path 2, inode 2, tasks    run these tasks of four fields: kind, name, name 2, size

Answers on standard output, one line each: the watched inode numbers; an errno for each task, 0 for success.

Rule: touch nothing outside the drive's device.  Every call is relative to a folder descriptor that was
checked after it was opened, never to a path alone.
"""

# `pathlib` is avoided: importing it would take most of the start-up time.
# ruff: noqa: PTH115, PTH123, PTH208

import os
import sys

CREATE, MKDIR, UNLINK, RMDIR, RENAME, MODIFY, TOUCH = b"c", b"m", b"u", b"r", b"n", b"w", b"t"
PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FIELDS = 4  # of a task


def main() -> None:
    """Serve requests until the daemon closes standard input."""
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


# ---- finding watches ---------------------------------------------------------------------------


def watched(device: int) -> set[int]:
    """Return the inodes of a device that this user's processes watch with inotify or fanotify."""
    found: set[int] = set()
    for pid in os.listdir("/proc"):
        if pid.isdecimal():
            for text in _watches(f"/proc/{pid}"):
                found |= inodes(text, device)
    return found


def _watches(process: str) -> list[bytes]:
    """Return the `fdinfo` of each inotify or fanotify descriptor of a process; nothing if it is not ours."""
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
    """Return the inodes of a device in one descriptor's `fdinfo`."""
    # The kernel's internal device number there has 20 bits for the minor number.
    sdev = b"sdev:%x" % (os.major(device) << 20 | os.minor(device))
    found = set()
    for line in text.splitlines():
        words = line.split()
        if sdev in words:
            found |= {int(word[4:], 16) for word in words if word.startswith(b"ino:")}
    return found


# ---- repeating changes -------------------------------------------------------------------------


def _do(fields: list[bytes]) -> list[int]:
    """Run the tasks in a folder (and another one, for moves); return an errno for each."""
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
            # The kernel may have a negative entry for the name.  Creating the name makes it look the name up
            # again, and the answer is that it exists.
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
