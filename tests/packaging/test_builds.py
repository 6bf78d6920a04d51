"""RPM packages, a signed apt repository and the one-file program: built, looked into, and used."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


def wanted(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def rpms(stage: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted("rpmbuild", "rpm")
    folder = tmp_path_factory.mktemp("rpm")
    run("env", f"CMSFS_STAGE={stage}", ROOT / "packaging" / "rpm", folder, seconds=1500)
    return folder


def test_rpms_have_the_files_and_the_scripts(rpms: Path, run: Run) -> None:
    drive, server = next(rpms.glob("cmsfs-0*.rpm")), next(rpms.glob("cmsfs-server-*.rpm"))
    files = run("rpm", "-qpl", drive).stdout.splitlines()
    for one in (
        *("/usr/bin/cmsfs", "/usr/sbin/mount.fuse.cmsfs", "/usr/lib/systemd/user/cmsfs@.service"),
        *("/usr/share/man/man1/cmsfs-mount.1.gz", "/usr/share/doc/cmsfs/GUIDE.md"),
    ):
        assert one in files
    assert sum(name.endswith(".pyc") for name in files) > 1000
    # What is the system's is nobody's here.
    assert not {"/usr", "/usr/bin", "/usr/share", "/usr/lib/systemd"} & set(files)
    readers = run("rpm", "-qpl", server).stdout
    assert "/site-packages/lxml/" in readers
    assert "/usr/lib/systemd/user/cmsfs-serve.service" in readers.splitlines()
    assert "/usr/lib/systemd/system/cmsfs-serve@.service" in readers.splitlines()
    assert not any("/site-packages/lxml/" in name for name in files)
    needs = run("rpm", "-qp", "--requires", drive).stdout
    assert "fuse3\n" in needs
    assert "python(abi) = 3." in needs
    assert "libfuse3.so." in needs
    scripts = run("rpm", "-qp", "--scripts", drive).stdout
    parts = scripts.split("scriptlet (using /bin/sh):\n")[1:]
    assert len(parts) == 3
    for part in parts:
        lines = part.splitlines()
        body = "\n".join(lines if part is parts[-1] else lines[:-1])
        assert subprocess.run(["sh", "-n"], input=body, text=True, check=False).returncode == 0
    assert "--unsent" in scripts
    assert "compileall" not in scripts


def test_rpms_are_installed_into_an_empty_root(rpms: Path, run: Run, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a root of the test's own needs root")
    root = tmp_path / "root"
    root.mkdir()
    into = ("rpm", "--root", root)
    run(*into, "--initdb")
    run(*into, "-i", "--nodeps", "--noscripts", *sorted(rpms.glob("*.rpm")))
    assert run(*into, "-V", "--nodeps", "cmsfs", "cmsfs-server").stdout == ""
    # It runs from there with the Python that it was built for.
    packages = next((root / "usr" / "lib" / "cmsfs" / "lib").glob("python3*/site-packages"))
    done = run("env", f"PYTHONPATH={packages}", "/usr/bin/python3", "-P", "-m", "cmsfs", "--version")
    assert done.stdout.startswith("cmsfs, version ")
    run(*into, "-e", "--nodeps", "--noscripts", "cmsfs", "cmsfs-server")
    assert [str(one) for one in root.rglob("*") if "cmsfs" in one.name] == []


def test_apt_installs_from_the_repository(package: Path, run: Run, tmp_path: Path) -> None:
    wanted("apt-ftparchive", "gpg", "apt-get")
    home = tmp_path / "gpg"
    home.mkdir(mode=0o700)
    gpg = ("env", f"GNUPGHOME={home}")
    run(*gpg, "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "packages@example.com")
    repository = tmp_path / "repository"
    command = (*gpg, ROOT / "packaging" / "repository", "--key", "packages@example.com", repository)
    run(*command, "bookworm", package)
    told = run(*command, "trixie", *package.parent.glob("cmsfs*.deb")).stdout
    assert (repository / "dists" / "bookworm" / "InRelease").exists()
    line = next(line for line in told.splitlines() if '"deb [' in line).split('"')[1]
    guide = (ROOT / "packaging" / "ADMINISTRATION.md").read_text(encoding="utf-8")
    assert f"    {line}\n" in guide

    state = tmp_path / "apt"
    for folder in ("lists/partial", "archives/partial", "etc"):
        (state / folder).mkdir(parents=True)
    line = line.replace("/etc/apt/keyrings", str(repository)).replace(
        "https://packages.example.com/", f"file:{repository}/"
    )
    (state / "sources.list").write_text(line + "\n")
    (state / "status").touch()
    options = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "APT::Sandbox::User": "root",
    }
    apt = ("apt-get", "-q", *(f"-o{key}={value}" for key, value in options.items()))
    run(*apt, "--error-on=any", "update")
    done = run("env", f"-C{tmp_path}", *apt, "download", "cmsfs", "cmsfs-server")
    assert "unauthenticated" not in done.stderr.lower()
    assert (tmp_path / package.name).read_bytes() == package.read_bytes()
    # What somebody changed on its way is refused.
    packages = repository / "dists" / "trixie" / "main" / "binary-amd64" / "Packages"
    for file in (packages, packages.with_suffix(".gz")):
        file.write_bytes(file.read_bytes() + b"\n")
    shutil.rmtree(state / "lists")
    (state / "lists" / "partial").mkdir(parents=True)
    assert run(*apt, "--error-on=any", "update", check=False).returncode != 0


def test_one_file_mounts_a_drive(run: Run, tmp_path: Path) -> None:
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse")
    file = tmp_path / "cmsfs.pyz"
    run(ROOT / "packaging" / "onefile", file, seconds=1500)
    folders = {f"XDG_{name}_HOME": tmp_path / name for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    (tmp_path / "run").mkdir(mode=0o700)
    known = {**folders, "HOME": tmp_path, "XDG_RUNTIME_DIR": tmp_path / "run", "SHIV_ROOT": tmp_path / "shiv"}
    given = ("env", *(f"{key}={value}" for key, value in known.items()), file)
    assert run(*given, "--version").stdout.startswith("cmsfs, version ")
    mountpoint = tmp_path / "drive"
    run(*given, "demo", mountpoint)
    try:
        assert (mountpoint / "Welcome.md").read_text(encoding="utf-8")
        (mountpoint / "new.txt").write_text("new")
        run(*given, "sync")
    finally:
        run(*given, "umount", mountpoint)
