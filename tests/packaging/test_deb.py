"""The package's life: installed, used, upgraded under a mounted drive, removed, purged."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support import documents
from tests.support.machine import server_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def newer(package: Path, tmp_path_factory: pytest.TempPathFactory, run) -> Path:
    """The same package with a higher revision."""
    folder = tmp_path_factory.mktemp("newer")
    run("dpkg-deb", "-R", package, folder / "tree")
    control = folder / "tree" / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("-1~", "-2~"))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", folder / "tree", folder / "newer.deb")
    return folder / "newer.deb"


def test_nothing_lies_outside_its_places(package, run):
    names = [line.split(maxsplit=5)[5] for line in run("dpkg-deb", "-c", package).stdout.splitlines()]
    files = [name.split(" -> ")[0] for name in names if not name.endswith("/")]
    places: tuple[str, ...] = ("./usr/lib/cmsfs/", "./usr/share/", "./usr/lib/systemd/user/")
    places += ("./usr/bin/cmsfs", "./usr/sbin/mount.")
    assert [name for name in files if not name.startswith(places)] == []
    for wanted in (
        "./usr/share/man/man1/cmsfs-mount.1.gz",
        "./usr/share/man/man5/cmsfs.toml.5.gz",
        "./usr/share/bash-completion/completions/cmsfs",
        "./usr/share/applications/cmsfs.desktop",
        "./usr/lib/systemd/user/cmsfs@.service",
    ):
        assert wanted in files
    assert any(name.endswith("/cmsfs/replica/schema.sql") for name in files)
    assert not any("__pycache__" in name for name in files)
    readers = ("lxml", "docx", "pptx", "pypdfium2", "odfdo", "python_calamine", "striprtf")
    listed = run("dpkg-deb", "-c", server_of(package)).stdout
    for reader in readers:
        assert f"/site-packages/{reader}/" in listed
        assert not any(f"/site-packages/{reader}/" in name for name in files), reader
    assert "./usr/lib/systemd/user/cmsfs-serve.service" in listed
    assert "./usr/lib/systemd/system/cmsfs-serve@.service" in listed


def test_lintian_finds_nothing_unexplained(package, run):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    for one in (package, server_of(package)):
        done = run("lintian", "--allow-root", "--fail-on", "error,warning", one, check=False)
        assert (done.returncode, done.stdout) == (0, "")


def test_bytecode_is_made_for_everybody(installed, person):
    modules = installed.sh("find /usr/lib/cmsfs -name '*.py' | wc -l").stdout
    compiled = installed.sh("find /usr/lib/cmsfs -name '*.pyc' | wc -l").stdout
    assert int(compiled) > 0.99 * int(modules)  # a template of a library may be no Python
    assert int(modules) > 1000
    before = installed.sh("find /usr/lib/cmsfs -newer /srv -name '*.pyc' | wc -l").stdout
    person.sh("cmsfs --version")
    assert installed.sh("find /usr/lib/cmsfs -newer /srv -name '*.pyc' | wc -l").stdout == before


def test_the_commands_and_their_manuals_are_there(installed):
    assert installed.sh("cmsfs --version").stdout.startswith("cmsfs, version ")
    assert installed.sh("cmsfsd --version").stdout
    assert "cmsfs mount" in installed.sh("zcat /usr/share/man/man1/cmsfs-mount.1.gz").stdout
    # Installing enables nothing for anybody.
    assert installed.sh("ls /etc/systemd/user/*.wants/ 2>/dev/null | grep cmsfs", check=False).stdout == ""


def test_fstab_mounts_for_a_user(person):
    person.serve()
    person.sh("mkdir -p work")
    guide = (documents.ROOT / "packaging" / "ADMINISTRATION.md").read_text(encoding="utf-8")
    (line,) = (line.strip() for line in guide.splitlines() if "  fuse.cmsfs  " in line)
    line = line.replace("/home/ada/cmsfs", f"{person.home}/work").replace(
        "setuid=ada", f"setuid={person.name}"
    )
    assert person.name in line
    person.machine.sh(f"echo '{line}' >> /etc/fstab; mount {person.home}/work")
    assert "Welcome.md" in person.sh("ls work").stdout
    person.sh("echo fstab > work/f.txt")
    pid = json.loads(person.sh("cmsfs status --json").stdout)["pid"]
    assert person.machine.sh(f"stat -c %U /proc/{pid}").stdout.strip() == person.name
    person.machine.sh(f"umount {person.home}/work")
    wrong = person.machine.sh(f"mount -t fuse.cmsfs -o nonsense default {person.home}/work", check=False)
    assert "'nonsense' is not known" in wrong.stderr
    assert person.sh("cmsfs get /f.txt -").stdout == "fstab\n"


def test_upgrade_reaches_every_drive_without_unmounting(installed, newer, person, second):
    for one in (person, second):
        one.serve()
        one.sh("cmsfs mount --systemd; echo x > cmsfs/x.txt; cmsfs sync")
    resting, used = person.unit("MainPID"), second.unit("MainPID")
    second.sh("systemd-run --user --unit=reader --collect bash -c 'exec 3< cmsfs/x.txt; sleep 1000'")
    shutil.copyfile(newer, installed.root / "srv" / "newer.deb")
    # The service's package goes with the version that it is for.
    installed.sh("dpkg --force-depends -i /srv/newer.deb")
    for one, before in ((person, resting), (second, used)):
        # Neither the number of the version nor the date of its files need be another one for that.
        assert one.unit("MainPID") not in ("0", before)
        assert one.unit("NRestarts") == "0"
        assert "upgrade" not in one.sh("cmsfs status").stdout
        assert one.sh("cat cmsfs/x.txt").stdout == "x\n"
    second.sh("systemctl --user is-active reader.service")
    second.sh("systemctl --user stop reader")


def test_removal_unmounts_and_leaves_the_data_alone(installed, person):
    person.serve()
    person.sh("cmsfs mount --systemd; echo mine > cmsfs/mine.txt; cmsfs sync")
    lone = "cmsfs --account other"
    # One that no unit started, on its own service.
    person.sh(f"mkdir other; CMSFS_PROFILE=embedded CMSFS_SERVICE_DATA={person.home}/svc {lone} demo other")
    assert installed.sh("grep -c fuse.cmsfs /proc/mounts").stdout.strip() == "2"
    files = installed.sh("dpkg -L cmsfs").stdout.split()
    person.sh("systemctl --user stop cmsfs-serve.service; echo unsent > cmsfs/unsent.txt; cmsfs pause")
    told = installed.sh("dpkg --remove cmsfs cmsfs-server").stdout
    unsent = f"account default: 1 change that the service does not have in {person.home}/.local/state/cmsfs"
    assert unsent in told
    assert "fuse.cmsfs" not in installed.sh("cat /proc/mounts").stdout
    running = "for line in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $line; echo; done 2>/dev/null"
    assert "systemd" in installed.sh(running, check=False).stdout
    assert "/usr/lib/cmsfs" not in installed.sh(running, check=False).stdout
    assert installed.sh("test ! -e /usr/lib/cmsfs").returncode == 0  # its bytecode is gone, too
    person.sh("mkdir -p .config/systemd/user/default.target.wants")
    person.sh(
        "ln -s /usr/lib/systemd/user/cmsfs@.service"
        " .config/systemd/user/default.target.wants/cmsfs@default.service"
    )
    assert unsent in installed.sh("dpkg --purge cmsfs cmsfs-server").stdout
    assert person.sh("ls .config/systemd/user/default.target.wants").stdout == ""
    for file in files:
        if "cmsfs" in file:
            assert installed.sh(f"test ! -e {file}", check=False).returncode == 0, file
    assert person.sh(
        "ls .local/state/cmsfs/default/replica.db .local/share/cmsfs/service .config/cmsfs"
    ).stdout
