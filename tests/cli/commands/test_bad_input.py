"""A start that cannot succeed: one sentence, an exit code, nothing left behind."""

import os

import pytest

from cmsfs import config

needs_fuse = pytest.mark.usefixtures("fuse")


@pytest.fixture
def fails(cmsfs, leftovers):
    """`fails(exit_code, part, *arguments)`: the command says one sentence with `part` in it, and no more."""

    def check(exit_code, part, *arguments):
        before = leftovers()
        done = cmsfs(*arguments)
        assert done.stderr.startswith("cmsfs: ")
        assert part in done.stderr
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr
        assert (done.returncode, done.stdout) == (exit_code, "")
        assert leftovers() == before

    return check


@pytest.mark.parametrize("command", ["demo", "mount", "umount", "status", "sync"])
def test_a_configuration_that_cannot_be_read(fails, command):
    file = config.config_file()
    file.parent.mkdir()
    file.write_text("profile = \n")
    fails(2, f"The configuration file {file} cannot be read", command)


def test_a_configuration_that_does_not_hold(fails):
    file = config.config_file()
    file.parent.mkdir()
    file.write_text('poll_seconds = "often"\n')
    fails(2, f'{file}, line 1: poll_seconds: "often" is not a number.', "mount")


def test_setting_of_environment_does_not_hold(fails, monkeypatch):
    monkeypatch.setenv("CMSFS_LOG_LEVEL", "LOUD")
    fails(2, 'CMSFS_LOG_LEVEL: log_level: "LOUD" is not "DEBUG" or "INFO"', "status")


def test_unknown_command_suggests_another(cmsfs):
    done = cmsfs("statsu")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'statsu'; did you mean status?" in done.stderr


def test_question_without_terminal_names_option(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    (mountpoint / "gone.txt").write_text("x")
    assert cmsfs("sync").returncode == 0
    (mountpoint / "gone.txt").unlink()
    assert cmsfs("sync").returncode == 0
    done = cmsfs("trash", "purge", "gone.txt")
    assert done.returncode == 2
    assert "there is no terminal; --yes skips the question" in done.stderr
    done = cmsfs("trash", "restore", "nothing")
    assert "There is no 'nothing' in the trash" in done.stderr
    done = cmsfs("pin", "/etc/passwd")
    assert "There is no /etc/passwd on the drive, from its top." in done.stderr


def test_a_profile_that_there_is_not(fails, monkeypatch):
    monkeypatch.setenv("CMSFS_PROFILE", "nonsense")
    fails(2, "There is no profile 'nonsense'", "mount")


def test_a_profile_without_its_addresses(fails, monkeypatch):
    monkeypatch.setenv("CMSFS_PROFILE", "specification")
    fails(2, "needs base_url, upload_url and auth_url", "mount")


@needs_fuse
@pytest.mark.parametrize("command", [["mount"], ["find", "x"], ["get", "/x"], ["put", "/etc/hostname", "/"]])
def test_nobody_is_logged_in(fails, command):
    fails(
        2, "Not logged in: `cmsfs login ADDRESS` logs in to a service, `cmsfs demo` mounts a demo", *command
    )
    assert not config.service_data(config.load()).exists()


@needs_fuse
@pytest.mark.parametrize("command", [["mount"], ["find", "x"]])
def test_an_embedded_service_that_holds_nothing(fails, command, monkeypatch):
    monkeypatch.setenv("CMSFS_PROFILE", "embedded")
    fails(2, "The embedded service holds nothing yet: `cmsfs demo` fills it", *command)
    assert not config.service_data(config.load()).exists()


@needs_fuse
def test_demo_is_not_mounted_as_the_account(fails, cmsfs, mountpoint, monkeypatch):
    """What is saved there would be in a sandbox, and look as if it were at the service."""
    assert cmsfs("demo", mountpoint).returncode == 0
    assert cmsfs("umount", mountpoint).returncode == 0
    fails(2, "Not logged in", "mount", mountpoint)
    assert cmsfs("--account", "work", "demo", mountpoint).returncode == 0
    assert cmsfs("--account", "work", "umount", mountpoint).returncode == 0
    fails(2, "Not logged in: `cmsfs --account work login ADDRESS`", "--account", "work", "mount", mountpoint)
    monkeypatch.setenv("CMSFS_PROFILE", "embedded")
    assert cmsfs("mount", mountpoint).returncode == 0
    assert cmsfs("umount", mountpoint).returncode == 0


def test_account_that_there_is_not(fails):
    file = config.config_file()
    file.parent.mkdir()
    file.write_text('[accounts.work]\nprofile = "embedded"\n')
    fails(2, "There is no account 'wrok'; did you mean work?", "--account", "wrok", "status")
    fails(
        2,
        "There is no account 'nosuch'; `cmsfs --account nosuch login ADDRESS`",
        "--account",
        "nosuch",
        "mount",
    )


@needs_fuse
def test_a_mountpoint_that_is_missing(fails, tmp_path):
    fails(3, f"The mountpoint {tmp_path / 'no'} does not exist.", "mount", tmp_path / "no")
    assert not (tmp_path / "no").exists()


@needs_fuse
def test_a_mountpoint_whose_folder_is_missing(fails, tmp_path):
    fails(
        3,
        f"The mountpoint {tmp_path / 'no' / 'drive'} cannot be created: ",
        "demo",
        tmp_path / "no" / "drive",
    )


@needs_fuse
@pytest.mark.parametrize("command", ["demo", "mount"])
def test_a_mountpoint_that_is_not_empty(fails, mountpoint, command):
    (mountpoint / "mine.txt").touch()
    fails(3, f"The mountpoint {mountpoint} is not empty", command, mountpoint)
    assert [path.name for path in mountpoint.iterdir()] == ["mine.txt"]


@needs_fuse
def test_a_mountpoint_that_is_a_file(fails, tmp_path):
    (tmp_path / "file").touch()
    fails(3, "is not a folder", "mount", tmp_path / "file")


@needs_fuse
def test_a_mountpoint_that_has_another_file_system(fails):
    fails(3, "/proc has another file system (proc) mounted on it.", "mount", "/proc")


@needs_fuse
def test_a_mountpoint_that_another_account_has(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    config.config_file().parent.mkdir(exist_ok=True)
    config.config_file().write_text('[accounts.other]\nprofile = "embedded"\n')
    done = cmsfs("--account", "other", "mount", mountpoint)
    assert done.returncode == 3
    assert done.stderr == f"cmsfs: {mountpoint} is in use by the account 'default'; name another folder.\n"


@needs_fuse
@pytest.mark.skipif(os.geteuid() == 0, reason="root mounts without fusermount3")
def test_fusermount3_is_missing(fails, mountpoint, monkeypatch):
    monkeypatch.setenv("PATH", str(mountpoint.parent))
    fails(4, "fusermount3 is missing; it comes with the package fuse3.", "demo", mountpoint)


@needs_fuse
def test_wrong_credentials(fails, mountpoint, server, account):
    secret = account(server)
    secret.write_text("wrong")
    fails(6, "The service refuses the credentials", "mount", mountpoint)


@pytest.mark.parametrize("command", [["find", "x"], ["get", "/x"], ["put", "/etc/hostname", "/"]])
def test_a_service_that_is_down(fails, server, account, command):
    account(server)
    server.stop()
    fails(5, "The service cannot be reached", *command)


def test_a_secret_that_is_not_there(fails, server, account):
    account(server).unlink()
    server.stop()
    fails(2, "cannot be read: No such file or directory.", "find", "x")


def test_failed_start_removes_its_mountpoint(fails, tmp_path, server, account):
    account(server, mountpoint=str(tmp_path / "made")).write_text("wrong")
    fails(6, "The service refuses the credentials", "mount")
    assert not (tmp_path / "made").exists()
