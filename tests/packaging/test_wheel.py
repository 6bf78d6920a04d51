"""The wheel and the source distribution: what must be in them is, and what was installed from them runs."""

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [ROOT / "packaging" / "wheel", folder], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_wheel_has_data_and_shared_files(built: Path) -> None:
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    sources = [
        path.relative_to(ROOT)
        for package in ("cmsfs", "daemon")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
    assert len(sources) > 200
    assert [path for path in sources if str(path) not in names] == []
    shared = [name.split(".data/data/", 1)[1] for name in names if ".data/data/" in name]
    for wanted in (
        "share/man/man1/cmsfs.1",
        "share/man/man8/cmsfsd.8",
        "share/man/man5/cmsfs.toml.5",
        "share/bash-completion/completions/cmsfs",
        "share/zsh/vendor-completions/_cmsfs",
        "share/fish/vendor_completions.d/cmsfs.fish",
        "share/systemd/user/cmsfs@.service",
        "share/systemd/user/cmsfs-serve.service",
        "share/systemd/system/cmsfs-serve@.service",
        "share/applications/cmsfs.desktop",
        "share/icons/hicolor/scalable/apps/cmsfs.svg",
    ):
        assert wanted in shared


def test_source_distribution_builds_and_tests(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for wanted in (
        *("pyproject.toml", "README.md", "LICENSE", "cmsfs/replica/schema.sql", "systemd/cmsfs@.service"),
        *("packaging/share", "packaging/deb", "packaging/hatch_build.py", "tests/conftest.py"),
        "build/share/man/man1/cmsfs.1",
    ):
        assert wanted in names


def test_installed_wheel_runs_on_its_own(built: Path, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run(["python3", "-m", "venv", tmp_path / "env"], check=True)
    wheel = next(built.glob("*.whl"))
    subprocess.run([python, "-m", "pip", "-q", "install", wheel], check=True, timeout=600)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path)}
    for command in (["cmsfs", "--version"], ["cmsfsd", "--help"], ["cmsfs", "serve", "--help"]):
        done = subprocess.run(
            [python.with_name(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            env=environment,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr
    script = "from cmsfs.cli.mount import units; print(units._source())"
    found = subprocess.run([python, "-c", script], capture_output=True, text=True, env=environment, cwd="/")
    assert found.stdout.strip() == f"{tmp_path}/env/share/systemd/user/cmsfs@.service"


@pytest.mark.parametrize("command", ["pipx install cmsfs-*.whl", "uv tool install cmsfs-*.whl"])
def test_it_can_be_installed_as_the_guide_says(built: Path, tmp_path: Path, command: str) -> None:
    tools = tmp_path / "tools"
    subprocess.run(["python3", "-m", "venv", tools], check=True)
    subprocess.run([tools / "bin" / "pip", "-q", "install", command.split()[0]], check=True, timeout=600)
    passed_on = {
        key: value for key, value in os.environ.items() if key.endswith(("_proxy", "_INDEX_URL", "CERT_FILE"))
    }
    environment = {"PATH": f"{tools}/bin:/usr/bin:/bin", "HOME": str(tmp_path), **passed_on}
    shell: dict[str, Any] = {"cwd": built, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-c", command], **shell, timeout=900)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / ".local" / "bin" / "cmsfs", "--version"], **shell)
    assert done.stdout.startswith("cmsfs, version "), done.stderr
