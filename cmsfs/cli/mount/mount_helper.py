"""`mount.cmsfs`: the mount(8) helper for `mount -t fuse.cmsfs ACCOUNT FOLDER` and fstab.

    default  /home/ada/cmsfs  fuse.cmsfs  setuid=ada,noauto,_netdev,poll_seconds=10  0 0

The first argument is the account.  `setuid=USER` runs the daemon as that user, with their configuration, as
with mount.fuse3(8).  Every setting is an option under its own name (`KEY=VALUE`, or `KEY` for a boolean),
`config=FILE` names the configuration.  Options for mount(8) itself are ignored.

Rule: an unknown option is an error, never ignored (except with `mount -s`).  Exit codes are those of
mount(8):  1 invalid call, 32 mount failed.
"""

import difflib
import os
import pwd
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cmsfs import config, errors, mountpoint_guard, mounts, output, process_env, user_messages
from cmsfs.cli.mount import launcher
from cmsfs.cli.support import daemonctl

USAGE = "usage: mount.cmsfs ACCOUNT FOLDER [-fnsv] [-o OPTION,...]"
WRONG_CALL = 1
FAILED = 32

# Options handled by mount(8), systemd or the kernel's defaults: a drive is always nosuid and nodev.
_OTHERS = {
    *("defaults", "rw", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "fail"),
    *("_netdev", "nosuid", "nodev", "suid", "dev", "exec", "async", "default_permissions", "atime"),
    *("noatime", "relatime", "norelatime", "strictatime", "diratime", "nodiratime"),
    *("lazytime", "nolazytime"),
}
_PREFIXES = ("x-", "X-", "comment=", "user=", "fsname=", "subtype=")


class WrongMountCall(errors.UserError):
    """The command line is invalid; nothing was attempted."""


@dataclass(slots=True)
class MountCall:
    """A parsed mount command line."""

    account: str
    folder: str
    settings: dict[str, str] = field(default_factory=dict)  # by key, as in environment variables
    user: str = ""
    config_file: str = ""
    is_fake: bool = False


def parse(arguments: Sequence[str]) -> MountCall:
    """Parse the arguments that mount(8) passes.  Raises `UserError` for unknown ones."""
    words, options, sloppy, fake = [], [], False, False
    waiting = iter(arguments)
    for word in waiting:
        if word == "-o" or word == "-t":
            value = next(waiting, None)
            if value is None:
                raise _wrong(USAGE)
            options += value.split(",") if word == "-o" else []
        elif word.startswith("-o"):
            options += word[2:].split(",")
        elif word.startswith("-") and len(word) > 1 and set(word[1:]) <= set("fnsvwr"):
            sloppy = sloppy or "s" in word
            fake = fake or "f" in word
            options += ["ro"] if "r" in word else []
        elif word.startswith("-"):
            raise _wrong(f"{word} is not known. {USAGE}")
        else:
            words.append(word)
    if len(words) != 2:
        raise _wrong(USAGE)
    call = MountCall(words[0].removeprefix("cmsfs#"), words[1], is_fake=fake)
    for option in filter(None, options):
        _take(call, option, sloppy=sloppy)
    return call


def _take(call: MountCall, option: str, *, sloppy: bool) -> None:
    name, equals, value = option.partition("=")
    known = config.Settings.model_fields.keys() - {"account", "mountpoint"}
    flags = {key for key, kind in config.Settings.model_fields.items() if kind.annotation is bool}
    if name == "ro":
        call.settings["read_only"] = "true"
    elif name == "setuid" and value:
        call.user = value
    elif name == "config" and value:
        call.config_file = value
    elif name in config.Settings.model_fields.keys() - {"account", "mountpoint"} and (
        equals or name in flags
    ):
        call.settings[name] = value if equals else "true"
    elif name.startswith("no") and name[2:] in flags and not equals:
        call.settings[name[2:]] = "false"
    elif option not in _OTHERS and not option.startswith(_PREFIXES) and not sloppy:
        names = [*known, *_OTHERS, "setuid", "config"]
        near = difflib.get_close_matches(name, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else "; cmsfs.toml(5) lists the settings."
        raise _wrong(f"The option {option!r} is not known{meant}")


def _wrong(message: str) -> "WrongMountCall":
    return WrongMountCall(message, exit_code=WRONG_CALL)


def carry_out(call: MountCall) -> str:
    """Mount; return a message about it.  Raises `UserError`.

    Permanently switches to the user of the call: this process exits after the mount.
    """
    if call.is_fake:
        return ""
    if call.user:
        _become(call.user)
    values = {f"CMSFS_{key.upper()}": value for key, value in call.settings.items()}
    process_env.pass_on(values | ({"CMSFS_CONFIG": call.config_file} if call.config_file else {}))
    mountpoint = mounts.located(Path(call.folder))
    settings = config.load(call.account, mountpoint=mountpoint)
    config.profile(settings)
    config.require_service(settings)
    if daemon := daemonctl.find_mounted(settings.place):
        raise errors.UserError(f"The account {daemon.account!r} is already mounted at {daemon.mountpoint}.")
    mounts.require_fuse()
    mounts.prepare(mountpoint, over=mountpoint_guard.is_known(settings.paths.mountpoint, mountpoint))
    return launcher.start(settings, mountpoint, sample=False)


def _become(user: str) -> None:
    """Switch to a user's identity and environment.

    Raises `UserError` for an unknown user, or without permission.
    """
    try:
        person = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        raise _wrong(f"There is no user {user!r}, whom setuid= names.") from None
    if person.pw_uid != os.getuid():
        try:
            os.initgroups(person.pw_name, person.pw_gid)
            os.setgid(person.pw_gid)
            os.setuid(person.pw_uid)
        except PermissionError:
            raise _wrong(f"Only root can mount for another user ({user}).") from None
    process_env.move_home(person.pw_name, Path(person.pw_dir))
    os.umask(0o077)
    os.chdir("/")


def run(arguments: Sequence[str]) -> int:
    """Run the program; print errors on standard error; return the exit code."""
    try:
        note = carry_out(parse(arguments))
    except Exception as error:
        told = user_messages.explain(error)
        output.note(f"mount.cmsfs: {told.message}")
        return WRONG_CALL if isinstance(error, WrongMountCall) else FAILED
    if note:
        output.note(f"mount.cmsfs: {note}")
    return 0


def main() -> None:
    """The entry point of `mount.cmsfs`."""
    process_env.keep_to_itself()
    sys.exit(run(sys.argv[1:]))
