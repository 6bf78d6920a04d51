"""Programs save a file: the item at the service stays the same one and has one version more, and nothing else
of what the program made on the way ever gets there.

All programs of a group work side by side in folders of their own on one drive, since a save is over in
moments and a drive takes seconds to start.
"""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import recorded_saves
from tests.support.mounted_drive import MountedDrive


@dataclass(frozen=True)
class Remote:
    """What the service has of a folder: of each file the id, how many versions, and the size."""

    files: dict[str, tuple[int, int, int]]
    trashed: list[str]


class Service:
    """The service's own tables."""

    def __init__(self, drive: MountedDrive) -> None:
        self._drive = drive
        self._top = drive.top.name

    def folder(self, path: str) -> Remote:
        """What is in a folder, given by its path from the test's own."""
        step = "SELECT id FROM item WHERE parent = ? AND name = ? AND kind <> 1 AND status = 0"
        sql = (
            "SELECT name, id, status, size, (SELECT count(*) FROM version v WHERE v.file = item.id)"
            " FROM item WHERE parent = ? AND kind = 1"
        )
        with self._drive.tables() as conn:
            (number,) = conn.execute("SELECT id FROM item WHERE name = ?", (self._top,)).fetchone()
            for name in Path(path).parts:
                (number,) = conn.execute(step, (number, name)).fetchone()
            rows = conn.execute(sql, (number,)).fetchall()
        files = {name: (ino, versions, size) for name, ino, status, size, versions in rows if status == 0}
        return Remote(files, sorted(row[0] for row in rows if row[2] != 0))


Save = Callable[[Path], None]


def sh(script: str, **environment: str) -> Save:
    """A save by a shell script, in the folder of the document."""

    def save(document: Path) -> None:
        done = subprocess.run(
            ["bash", "-euc", script, "bash", document.name],
            cwd=document.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "LC_ALL": "C.UTF-8", "GIT_CONFIG_GLOBAL": "/dev/null", "TERM": "dumb"}
            | environment,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"

    return save


def check_saves(
    drive: MountedDrive, saves: dict[str, tuple[Save, set[str]]], *, name: str = "document.txt"
) -> None:
    """Each save makes one more version of the same item; beside it there is at the service what is listed."""
    service = Service(drive)
    for folder in saves:
        (drive.top / folder).mkdir()
        (drive.top / folder / name).write_text("the first line\nthe second line\n")
    drive.sync()
    before = {folder: service.folder(folder) for folder in saves}
    for folder, (save, _) in saves.items():
        assert before[folder].files[name][1] == 1, folder
        save(drive.top / folder / name)
    drive.sync()
    for folder, (_, beside) in saves.items():
        after = service.folder(folder)
        assert set(after.files) == {name} | beside, folder
        assert after.trashed == [], folder
        item, versions, size = after.files[name]
        assert item == before[folder].files[name][0], f"{folder}: another item"
        assert versions == 2, f"{folder}: {versions} versions"
        assert size == (drive.top / folder / name).stat().st_size, folder


VIM = "vim -es -u NONE -c 'set backupskip= {options}' -c '%s/first/1st/' -c wq \"$1\"; grep -q 1st \"$1\""

# In a folder for temporary files emacs makes no backups by itself.
EMACS = "(setq backup-enable-predicate (lambda (f) t) backup-inhibited nil)"

PROGRAMS: dict[str, tuple[str, Save, set[str]]] = {
    "vim": ("vim", sh(VIM.format(options="swapfile")), set()),
    "vim with its defaults": (
        "vim",
        sh("vim -es -u DEFAULTS -c 'set backupskip=' -c '%s/first/1st/' -c wq \"$1\""),
        set(),
    ),
    "vim, nowritebackup": ("vim", sh(VIM.format(options="nowritebackup")), set()),
    "vim, backupcopy=no": ("vim", sh(VIM.format(options="writebackup backupcopy=no")), set()),
    "vim, backupcopy=yes": ("vim", sh(VIM.format(options="writebackup backupcopy=yes")), set()),
    "vim, backup": ("vim", sh(VIM.format(options="backup backupcopy=no backupdir=.")), set()),
    "vim, backup of its own name": (
        "vim",
        sh(VIM.format(options="backup backupcopy=no backupdir=. backupext=.old")),
        {"document.txt.old"},
    ),
    "sed": ("sed", sh('sed -i s/first/1st/ "$1"'), set()),
    "sed with a backup": ("sed", sh('sed -i.bak s/first/1st/ "$1"'), {"document.txt.bak"}),
    "perl": ("perl", sh('perl -pi -e s/first/1st/ "$1"'), set()),
    "perl with a backup": ("perl", sh('perl -pi.orig -e s/first/1st/ "$1"'), {"document.txt.orig"}),
    "sort": ("sort", sh('sort -r -o "$1" "$1"'), set()),
    "the shell": ("bash", sh('echo third >> "$1"'), set()),
    "the shell, from the start": ("bash", sh('echo other > "$1"'), set()),
    "cp over it": ("cp", sh('cp /etc/hostname "$1"'), set()),
    "cp, deleting first": ("cp", sh('cp --remove-destination /etc/hostname "$1"'), set()),
    "mv over it from elsewhere": ("mv", sh('t=$(mktemp); echo new > $t; mv -f $t "$1"'), set()),
    "install": ("install", sh('install -m 644 /etc/hostname "$1"'), set()),
    "dd": ("dd", sh('dd if=/dev/zero of="$1" bs=5 seek=3 count=1 conv=notrunc status=none'), set()),
    "truncate": ("truncate", sh('truncate -s 7 "$1"'), set()),
    "rsync": ("rsync", sh('d=$(mktemp -d); echo new > $d/"$1"; rsync -a $d/ ./'), set()),
    "rsync in place": ("rsync", sh('d=$(mktemp -d); echo new > $d/"$1"; rsync -a --inplace $d/ ./'), set()),
    "rsync with a backup": (
        "rsync",
        sh('d=$(mktemp -d); echo new > $d/"$1"; rsync -a --backup --suffix=.bak $d/ ./'),
        {"document.txt.bak"},
    ),
    "tar": ("tar", sh('d=$(mktemp -d); echo new > $d/"$1"; tar -C $d -cf - . | tar -xf -'), set()),
    "patch": ("patch", sh("printf '1c1\\n< the first line\\n---\\n> new\\n' | patch -s \"$1\""), set()),
    "ed": ("ed", sh("printf '1d\\nw\\nq\\n' | ed -s \"$1\""), set()),
    "emacs": (
        "emacs",
        sh(f'emacs -Q --batch "$1" --eval \'(progn {EMACS} (insert "new ") (save-buffer))\''),
        set(),
    ),
    "python": ("python3", sh('python3 -c \'open("document.txt", "r+").write("THE")\''), set()),
}


def test_every_program_that_is_here_saves_one_version(shared: MountedDrive) -> None:
    here = {name: (save, beside) for name, (tool, save, beside) in PROGRAMS.items() if shutil.which(tool)}
    assert len(here) > 15, "the test set-up lacks programs"
    check_saves(shared, here)
    # emacs and vim left backups, on this machine.
    assert (shared.top / "vim, backup" / "document.txt~").read_text().startswith("the first")
    if "emacs" in here:
        assert (shared.top / "emacs" / "document.txt~").read_text().startswith("the first")
    assert shared.status()["local"]["items"] >= 1


def test_every_recorded_save_is_one_version(shared: MountedDrive) -> None:
    check_saves(shared, recorded_saves.SAVES)


def test_git_writes_its_own_files_as_new_versions(shared: MountedDrive) -> None:
    repo = shared.top / "repo"
    repo.mkdir()
    commit = sh('git add .; git -c user.name=n -c user.email=e@example.com commit -qm "$1"')
    sh("git init -q .; echo one > file; ln -s file link")(repo / "x")
    commit(repo / "first")
    shared.sync()
    service = Service(shared)
    before = service.folder("repo/.git").files
    sh("echo two > file; touch other")(repo / "x")
    commit(repo / "second")
    shared.sync()
    after = service.folder("repo/.git").files
    for name in ("HEAD", "config", "index", "COMMIT_EDITMSG"):
        assert after[name][0] == before[name][0], name
    assert after["index"][1] == before["index"][1] + 1
    assert after["config"][1] == before["config"][1]
    assert not [name for name in after if name.endswith(".lock")]
    assert shared.sh("cd repo; git status --porcelain; git fsck --strict 2>&1") == ""


def test_appended_zip_is_one_version(shared: MountedDrive) -> None:
    with zipfile.ZipFile(shared.top / "a.zip", "w") as archive:
        archive.writestr("one", b"1" * 10000)
    (shared.top / "zipped").mkdir()
    (shared.top / "a.zip").rename(shared.top / "zipped" / "a.zip")
    shared.sync()
    before = Service(shared).folder("zipped").files["a.zip"]
    with zipfile.ZipFile(shared.top / "zipped" / "a.zip", "a") as archive:
        archive.writestr("two", b"2" * 10000)
    shared.sync()
    after = Service(shared).folder("zipped").files["a.zip"]
    assert (after[0], after[1]) == (before[0], before[1] + 1)
    with zipfile.ZipFile(shared.top / "zipped" / "a.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["one", "two"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_libreoffice_saves_one_version(shared: MountedDrive, tmp_path: Path) -> None:
    office = shutil.which("soffice")
    python = "/usr/bin/python3"  # of the system, as LibreOffice's module is
    if office is None or subprocess.run([python, "-c", "import uno"], capture_output=True).returncode:
        pytest.skip("LibreOffice with its Python module (some 400 MB) is not installed here")
    (shared.top / "letters").mkdir()
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"

    def store() -> None:
        script = Path(__file__).parents[1] / "support" / "libreoffice_save.py"
        done = subprocess.run(
            [
                python,
                script,
                office,
                profile,
                shared.top / "letters/a.odt",
            ],
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    store()
    shared.sync()
    service = Service(shared)
    before = service.folder("letters")
    store()
    shared.sync()
    after = service.folder("letters")
    assert list(after.files) == ["a.odt"]
    assert after.trashed == []
    assert after.files["a.odt"][0] == before.files["a.odt"][0]
    assert after.files["a.odt"][1] == before.files["a.odt"][1] + 1
