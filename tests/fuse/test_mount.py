"""Mounting, unmounting by whomever, stopping in good order, and what is said when it does not work."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from cmsfs import config, errors, mountpoint_guard, mounts
from cmsfs.cli.doctor import machine
from cmsfs.fuse import libfuse_output, mount, operations

ACCOUNT = "nobody"


async def _refused(fs, place, **options):
    with pytest.raises(errors.UserError) as caught:
        async with mount.mounted(operations.Operations(fs), place, **options):
            pass
    return caught.value


async def test_mount_lives_as_long_as_its_context(fs, tmp_path, mounting, outside):
    fs.put("a")
    async with mounting(fs) as drive:
        assert drive.mountpoint == tmp_path / "drive"
        found = mounts.find(drive.mountpoint)
        assert (found.fstype, found.user_id, found.connection) == (
            "fuse.cmsfs",
            os.geteuid(),
            drive.connection,
        )
        assert await outside(os.listdir, drive.mountpoint) == ["a"]
        assert not drive.unmounted.is_set()
    assert mounts.find(tmp_path / "drive") is None
    assert drive.unmounted.is_set()
    assert list((tmp_path / "drive").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set it")
async def test_large_files_are_asked_for_by_the_mebibyte(fs, mounting, outside):
    fs.put("large", bytes(8 * 1024 * 1024))
    asked = []
    read = fs.read

    async def noted(fh, offset, size):
        asked.append(size)
        return await read(fh, offset, size)

    fs.read = noted
    async with mounting(fs) as drive:
        assert mounts.read_ahead(drive.connection) == mounts.READ_AHEAD_KIB
        data = await outside((drive.mountpoint / "large").read_bytes)
    assert len(data) == 8 * 1024 * 1024
    assert len(asked) <= 16, asked
    assert max(asked) == 1024 * 1024


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set it")
async def test_doctor_explains_kernel_read_ahead(fs, mounting, outside):
    async with mounting(fs) as drive:
        place = Path(f"/sys/class/bdi/0:{drive.connection}/read_ahead_kb")
        place.write_text("128")

        def look():  # also at the mount, which this thread serves
            settings = config.Settings(mountpoint=drive.mountpoint)
            return next(check for check in machine.checks(settings) if check.name == "read-ahead")

        found = await outside(look)
        assert (found.state, found.said[:7]) == ("ok", "128 KiB")
        await outside(subprocess.run, ["sh", "-c", found.remedy.replace("sudo ", "")], check=True)
        assert int(place.read_text()) == mounts.READ_AHEAD_KIB
        found = await outside(look)
        assert (found.said, found.remedy) == (f"{mounts.READ_AHEAD_KIB} KiB", "")


async def test_mounting_again_and_again_in_one_process(fs, mounting, outside):
    fs.put("a")
    for _ in range(10):
        async with mounting(fs) as drive:
            assert await outside(os.listdir, drive.mountpoint) == ["a"]


async def test_no_one_but_the_owner_gets_in(drive):
    seen = await trio.run_process(
        ["setpriv", "--reuid", ACCOUNT, "--clear-groups", "ls", str(drive.mountpoint)],
        check=False,
        capture_stderr=True,
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
    )
    assert b"Permission denied" in seen.stderr


async def test_allow_other_respects_mode_bits(fs, mounting, tmp_path):
    fs.put("a", b"x")
    for folder in (tmp_path, *tmp_path.parents):
        if stat.S_IMODE(folder.stat().st_mode) & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    async with mounting(fs, allow_other=True) as drive:
        script = f"cat {drive.mountpoint}/a; echo y > {drive.mountpoint}/a"
        seen = await trio.run_process(
            ["setpriv", "--reuid", ACCOUNT, "--clear-groups", "sh", "-c", script],
            check=False,
            capture_stdout=True,
            capture_stderr=True,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        )
    assert seen.stdout == b"x"
    assert b"Permission denied" in seen.stderr


async def test_someone_elses_unmount_is_noticed(fs, mounting, outside):
    async with mounting(fs) as drive:
        await trio.run_process([shutil.which("fusermount3"), "-u", str(drive.mountpoint)])
        await drive.unmounted.wait()
        assert mounts.find(drive.mountpoint) is None


async def test_external_abort_ends_the_mount(fs, mounting, outcome):
    async with mounting(fs) as drive:
        assert drive.abort()
        await drive.unmounted.wait()
        # A stat of the root would be answered from the kernel's memory.
        assert await outcome(os.statvfs, drive.mountpoint) == errno.ENOTCONN
    assert mounts.find(drive.mountpoint) is None
    assert not drive.abort()


async def test_a_stop_lets_a_write_end(fs, mounting, outside, nursery):
    answers = []
    ended = trio.Event()

    async def work(path):
        answers.append(await outside(path.write_bytes, b"kept"))
        ended.set()

    fs.waiting["write"] = trio.Event()
    async with mounting(fs, linger=5.0) as drive:
        nursery.start_soon(work, drive.mountpoint / "a")
        await fs.entered["write"].wait()
        fs.waiting.pop("write").set()
    assert fs.things[fs.ino("a")].data == b"kept"
    # The kernel sends the release after close() has returned, perhaps when nobody is there any more.
    with trio.fail_after(10):
        await ended.wait()
    assert answers == [len(b"kept")]


async def test_stop_does_not_wait_for_open_files(fs, mounting, outside, outcome):
    fs.put("a", b"x")
    async with mounting(fs, linger=0.05) as drive:
        handle = await outside(os.open, drive.mountpoint / "a", os.O_RDONLY)
    assert await outcome(os.pread, handle, 1, 0) == errno.ENOTCONN
    assert await outcome(os.close, handle) == errno.ENOTCONN


async def test_endless_handler_is_cancelled_at_deadline(fs, mounting, outcome, nursery, expect_log):
    expect_log("requests did not finish within")
    fs.put("a", b"x")
    fs.waiting["read"] = trio.Event()
    ends = []

    async def work(path):
        ends.append(await outcome(path.read_bytes))

    async with trio.open_nursery() as callers, mounting(fs, linger=0.05, deadline=0.05) as drive:
        callers.start_soon(work, drive.mountpoint / "a")
        await fs.entered["read"].wait()
    assert ends[0] in (errno.ENOTCONN, errno.ECONNABORTED)


async def test_cancelled_from_outside_callers_still_get_their_answer(fs, mounting, outside, nursery):
    fs.put("a", b"x")
    fs.waiting["read"] = trio.Event()
    answers = []

    async def work(path):
        answers.append(await outside(path.read_bytes))

    async with trio.open_nursery() as callers:
        with trio.CancelScope() as scope:
            async with mounting(fs, linger=5.0) as drive:
                callers.start_soon(work, drive.mountpoint / "a")
                await fs.entered["read"].wait()
                scope.cancel()
                fs.waiting["read"].set()
                await trio.sleep_forever()
    assert answers == [b"x"]
    assert mounts.find(drive.mountpoint) is None


async def test_a_failure_inside_unmounts(fs, mounting, tmp_path):
    with pytest.raises(ExceptionGroup) as caught:
        async with mounting(fs):
            raise KeyError("inside")
    assert caught.group_contains(KeyError)
    assert mounts.find(tmp_path / "drive") is None


async def test_a_folder_with_something_in_it_is_refused(fs, tmp_path):
    (tmp_path / "letter").write_text("mine")
    refusal = await _refused(fs, tmp_path)
    assert refusal.message.endswith("is not empty, and the drive would hide what is in it.")
    assert refusal.exit_code == mounts.BAD_MOUNTPOINT


async def test_a_file_is_refused(fs, tmp_path):
    (tmp_path / "f").write_text("mine")
    for create in (True, False):
        assert "is not a folder" in (await _refused(fs, tmp_path / "f", create=create)).message


async def test_missing_mountpoint_is_created_on_request(fs, tmp_path):
    assert "does not exist" in (await _refused(fs, tmp_path / "m")).message
    assert "cannot be made" in (await _refused(fs, tmp_path / "m" / "n", create=True)).message
    assert not (tmp_path / "m").exists()


async def test_two_drives_do_not_share_a_folder(fs, drive):
    assert "already has a drive mounted on it" in (await _refused(fs, drive.mountpoint)).message


async def test_a_symlink_is_followed_to_its_folder(fs, tmp_path, mounting, outside):
    (tmp_path / "real").mkdir()
    (tmp_path / "drive").symlink_to("real")
    fs.put("a")
    async with mounting(fs, create=False) as drive:
        assert drive.mountpoint == tmp_path / "real"
        assert await outside(os.listdir, tmp_path / "drive") == ["a"]


async def test_another_file_system_there_is_refused(fs, tmp_path):
    (tmp_path / "t").mkdir()
    await trio.run_process(["mount", "-t", "tmpfs", "none", str(tmp_path / "t")])
    try:
        refusal = await _refused(fs, tmp_path / "t")
    finally:
        await trio.run_process(["umount", str(tmp_path / "t")])
    assert "has another file system (tmpfs) mounted on it" in refusal.message


async def test_without_the_device_the_reason_is_told(fs, tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "DEVICE", tmp_path / "fuse")
    refusal = await _refused(fs, tmp_path / "d", create=True)
    assert "kernel's fuse module is not loaded" in refusal.message
    assert refusal.exit_code == mounts.NO_FUSE


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("fuse: failed to open /dev/fuse: Permission denied\n", "this user may not open /dev/fuse"),
        ("fuse: failed to exec fusermount3: No such file or directory\n", "fusermount3 is missing"),
        ("posix_spawn(p)() for fusermount3 failed: No such file or directory\n", "fusermount3 is missing"),
        ("fusermount3: mount failed: Operation not permitted\n", "must be setuid root"),
        (
            "fusermount3: too many FUSE filesystems mounted; mount_max=N can be set in /etc/fuse.conf\n",
            "mount_max",
        ),
        ("fusermount3: option allow_other only allowed if 'user_allow_other' is set\n", "user_allow_other"),
        ("first\nfuse: something new.\n", "fuse: something new"),
        ("", "no reason given by libfuse"),
    ],
)
def test_what_libfuse_prints_becomes_one_clause(printed, said):
    assert said in libfuse_output.reason(printed)


async def test_libfuse_output_is_captured(fs, tmp_path, monkeypatch, capfd):
    # The mountpoint vanishes between our look at it and libfuse's.
    take = mount._open_ground

    def vanishing(place, memo):
        taken = take(place, memo)
        place.rmdir()
        return taken

    monkeypatch.setattr(mount, "_open_ground", vanishing)
    refusal = await _refused(fs, tmp_path / "missing", create=True)
    assert refusal.message.startswith(f"{tmp_path}/missing cannot be mounted: fuse: ")
    assert refusal.message.endswith("No such file or directory.")
    assert capfd.readouterr().err == ""
    os.write(2, b"still here\n")
    assert capfd.readouterr().err == "still here\n"


def test_an_unprivileged_user_without_the_helper_is_told(tmp_path):
    # In a process of its own: privileges cannot be taken back.
    script = (
        "import os\n"
        "from cmsfs import errors, mounts\n"
        f"mounts.DEVICE = __import__('pathlib').Path({str(tmp_path / 'fuse')!r})\n"
        "os.environ['PATH'] = '/nonexistent'\n"
        "os.seteuid(65534)\n"
        "try: mounts.require_fuse()\n"
        "except errors.UserError as e: print(e.message)\n"
    )
    (tmp_path / "fuse").write_text("")
    (tmp_path / "fuse").chmod(0o666)
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "fusermount3 is missing; it comes with the package fuse3.\n"


def test_mountinfo_is_read_with_its_escapes(tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "43 22 0:40 / /home/a\\040b/Cloud rw,nosuid shared:1 - fuse.cmsfs cmsfs rw,user_id=1000\n"
    )
    monkeypatch.setattr(mounts, "MOUNTINFO", table)
    found = mounts.find(Path("/home/a b/Cloud"))
    assert found == mounts.Mount("/home/a b/Cloud", "fuse.cmsfs", 40, 1000)
    assert found.is_drive
    assert mounts.find(Path("/home")) is None


def _mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


async def test_unmounted_mountpoint_is_read_only(fs, tmp_path, mounting):
    """A daemon that dies, at whatever moment, leaves the folder so."""
    (tmp_path / "drive").mkdir(mode=0o750)
    memo = tmp_path / "memo"
    async with mounting(fs, memo=memo) as drive:
        assert stat.S_IMODE(os.fstat(drive.ground.fd).st_mode) == mountpoint_guard.BARRED
        assert json.loads(memo.read_text())["mode"] == 0o750
    assert _mode(tmp_path / "drive") == 0o750
    assert json.loads(memo.read_text())["mode"] is None


async def test_created_mountpoint_is_not_writable(fs, tmp_path, mounting):
    async with mounting(fs):
        pass
    assert _mode(tmp_path / "drive") == mountpoint_guard.BARRED
    async with mounting(fs):
        pass
    assert _mode(tmp_path / "drive") == mountpoint_guard.BARRED


async def test_mountpoint_mode_is_restored(fs, tmp_path, mounting):
    folder, memo = tmp_path / "drive", tmp_path / "memo"
    folder.mkdir(mode=0o750)
    died = mountpoint_guard.MountpointGuard(folder, memo)
    died.open_up()
    died.bar()
    died.close()
    assert _mode(folder) == mountpoint_guard.BARRED
    async with mounting(fs, memo=memo):
        pass
    assert _mode(folder) == 0o750


@pytest.mark.parametrize("by", ["umount", "another folder"])
async def test_mountpoint_of_dead_drive_is_restored(fs, tmp_path, mounting, by):
    folder, memo = tmp_path / "old", tmp_path / "memo"
    folder.mkdir(mode=0o750)
    died = mountpoint_guard.MountpointGuard(folder, memo)
    died.open_up()
    died.bar()
    died.close()
    if by == "umount":
        mountpoint_guard.restore(memo)
    else:
        async with mounting(fs, memo=memo):
            pass
    assert _mode(folder) == 0o750


async def test_nonempty_mountpoint_is_reported(fs, tmp_path, mounting, outside):
    fs.put("a")
    (tmp_path / "drive").mkdir()
    (tmp_path / "drive" / "saved in between").write_text("mine")
    async with mounting(fs, over=True) as drive:
        assert await outside(os.listdir, drive.mountpoint) == ["a"]
        assert drive.ground.hidden() == ["saved in between"]
    assert (tmp_path / "drive" / "saved in between").read_text() == "mine"
