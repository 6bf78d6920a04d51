"""mount.cmsfs: the words of mount(8), options that are settings, and a mount as fstab makes one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cmsfs import errors, mounts
from cmsfs.cli.mount import mount_helper

PROGRAM = [sys.executable, "-P", "-c", "from cmsfs.cli.mount import mount_helper; mount_helper.main()"]


def test_mount_options_become_settings() -> None:
    call = mount_helper.parse(
        [
            *("work", "/mnt/w", "-n", "-t", "fuse.cmsfs", "-o", "rw,noauto,_netdev,x-systemd.automount"),
            *("-o", "setuid=ada,poll_seconds=9,allow_other,nocrawl,profile=server"),
        ]
    )
    assert (call.account, call.folder, call.user) == ("work", "/mnt/w", "ada")
    assert call.settings == {
        "poll_seconds": "9",
        "allow_other": "true",
        "crawl": "false",
        "profile": "server",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["work"], "usage: "),
        (["work", "/mnt", "-o"], "usage: "),
        (["work", "/mnt", "--help"], "--help is not known"),
        (["work", "/mnt", "-o", "poll_second=3"], "did you mean poll_seconds?"),
        (["work", "/mnt", "-o", "mountpoint=/x"], "'mountpoint=/x' is not known"),
        (["work", "/mnt", "-o", "poll_seconds"], "'poll_seconds' is not known"),
        (["work", "/mnt", "-o", "frobnicate"], "cmsfs.toml(5) lists"),
    ],
)
def test_what_is_not_understood_is_told(words: list[str], said: str) -> None:
    with pytest.raises(errors.UserError) as told:
        mount_helper.parse(words)
    assert said in told.value.message
    assert told.value.exit_code == 1


def test_owner_and_bits_are_settings() -> None:
    call = mount_helper.parse(["work", "/mnt", "-o", "allow_other,uid=1000,gid=1001,umask=022"])
    assert call.settings == {"allow_other": "true", "uid": "1000", "gid": "1001", "umask": "022"}


def test_a_sloppy_mount_passes_over_it() -> None:
    assert mount_helper.parse(["work", "/mnt", "-s", "-o", "frobnicate"]).settings == {}


def test_mount_helper_exit_codes(tmp_path: Path) -> None:
    wrong = subprocess.run([*PROGRAM, "x"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.startswith("mount.cmsfs: usage")) == (1, True)
    nobody = subprocess.run(
        [*PROGRAM, "x", tmp_path, "-o", "setuid=nobody-of-this-name"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert nobody.returncode == 1
    failed = subprocess.run(
        [*PROGRAM, "x", tmp_path / "missing", "-o", "profile=embedded"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 32
    assert failed.stderr.count("\n") == 1


def test_read_only_mount_is_another_drive(spoken_to, mountpoint: Path) -> None:
    """It is mounted beside the whole one, and has a daemon of its own."""
    spoken_to(account="default")
    spoken_to(account="default@ro", mountpoint="/mnt/to-read")
    done = subprocess.run(
        [*PROGRAM, "default", mountpoint, "-o", "ro,profile=embedded"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        mount_helper.FAILED,
        "mount.cmsfs: The account 'default@ro' is already mounted at /mnt/to-read.\n",
    )


@pytest.mark.usefixtures("fuse", "sample")
def test_mount_read_only_and_umount(mountpoint: Path, tmp_path: Path, leftovers: object) -> None:
    """mount(8) itself, with our helper in the place where it looks; in a namespace of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("mount(8) with a helper of one's own needs root")
    helper = tmp_path / "helper"
    helper.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{os.environ.get("PYTHONPATH", "")}"\n'
        f"exec {sys.executable} -P -c '{PROGRAM[-1]}' \"$@\"\n"
    )
    helper.chmod(0o755)
    script = f"""
        set -e
        mount -t tmpfs none /mnt
        mkdir /mnt/upper /mnt/work
        if ! mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=/mnt/upper,workdir=/mnt/work /usr/sbin
        then exit 77; fi
        cp {helper} /usr/sbin/mount.fuse.cmsfs
        echo "default {mountpoint} fuse.cmsfs noauto,_netdev,profile=embedded 0 0" > {tmp_path}/fstab
        mount --fstab {tmp_path}/fstab {mountpoint}
        timeout 30 ls {mountpoint}
        echo kept > {mountpoint}/kept.txt
        umount {mountpoint}
        mount --fstab {tmp_path}/fstab -o ro {mountpoint}
        timeout 30 cat {mountpoint}/kept.txt
        ! touch {mountpoint}/kept.txt {mountpoint}/new.txt
        grep '^default@ro@embedded {mountpoint} fuse.cmsfs ro,' /proc/mounts
        umount {mountpoint}
    """
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    if done.returncode == 77:
        pytest.skip("this machine has no overlay file system")
    assert done.returncode == 0, done.stderr
    assert "Welcome.md\nkept\n" in done.stdout
    assert done.stderr.count("Read-only file system") == 2
    assert mounts.find(mountpoint) is None
