"""Each line of the units has its reason here; a unit without one of them is found.

What the lines do on a machine is in test_systemd.py and test_deb.py.
"""

import re
from pathlib import Path

import pytest

from cmsfs import errors, mounts, user_messages
from daemon import instance_lock

ROOT = Path(__file__).parents[2]

# What a unit must say, and what a user would see without it.
DRIVE = {
    "Type=notify": "a login would not wait for the mount, and WatchdogSec would have nobody to hear from",
    "NotifyAccess=main": "a program that the drive starts could say that the drive is well",
    "ExecStart=/usr/bin/cmsfsd --account %I": "no drive",
    "ExecReload=/usr/bin/cmsfs --account %I upgrade": "a new version would wait for the next login",
    "ExecStopPost=-/bin/sh -c .* umount --dead": "a dead mount would stay where no daemon follows",
    "KillMode=mixed": "fusermount3 would be ended half-way, and leave a dead mount",
    "Restart=on-failure": "a crash would take the drive away until the next login",
    "RestartSec=100ms": "whoever works on the drive would stand before an empty folder meanwhile",
    "FileDescriptorStoreMax=8": "with keep_mounted, nobody would have the connection after a crash",
    "RestartPreventExitStatus=2 3 4 6 8": "what only a person can mend would be tried again and again",
    "TimeoutStartSec=300": "a first start that asks a slow service would be ended",
    "TimeoutStopSec=90": "uploads of what is left would be ended",
    "WatchdogSec=30": "a drive that hangs would hang for good",
    "UMask=0077": "others could read what the drive writes into its folders",
    "LimitCORE=0": "a crash would write a token to the disk",
    "OOMPolicy=continue": "a helper without memory would take the drive with it",
    "LimitNOFILE=65536": "a drive with many open files would have no descriptors",
    "StartLimitIntervalSec=300": "a drive that dies again and again would be started for ever",
    "StartLimitBurst=10": "a drive that dies again and again would be started for ever",
    "After=cmsfs-serve.service": "at login the drive would find its own service closed",
    "WantedBy=default.target": "it could not be enabled",
}
SERVICE = {
    "Type=notify": "the drive's unit would start before the service answers",
    "NotifyAccess=main": "a worker could say that the service is well",
    "Environment=CMSFS_SERVE_OPTIONS=": "a variable of the manager's own would be its command line",
    "ExecStart=/usr/bin/cmsfs serve $CMSFS_SERVE_OPTIONS": "no service",
    "KillMode=mixed": "the worker would be ended under the service, which would start another",
    "Restart=on-failure": "a crash would take the service away until the next login",
    "RestartSec=2": "a crash at the start would come ten times a second",
    "RestartPreventExitStatus=2": "a wrong option would be tried again and again",
    "TimeoutStartSec=120": "the upgrade of a large store would be ended",
    "TimeoutStopSec=30": "requests in progress would be ended",
    "UMask=0077": "others could read the service's data",
    "LimitCORE=0": "a crash would write keys to the disk",
    **{
        f"{fence}=yes": "a hole in the service would reach further"
        for fence in (
            *(
                "NoNewPrivileges",
                "LockPersonality",
                "RestrictNamespaces",
                "RestrictRealtime",
                "RestrictSUIDSGID",
            ),
        )
    },
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6": "a hole in the service would reach further",
    "SystemCallArchitectures=native": "a hole in the service would reach further",
    "SystemCallFilter=@system-service .*landlock_restrict_self": "the worker could not confine itself",
    "SystemCallErrorNumber=EPERM": "a call too many would end the service, not fail",
    "WantedBy=default.target": "it could not be enabled",
}
_OURS = ("Environment=CMSFS_SERVE", "ExecStart=", "TimeoutStartSec=", "WantedBy=", "UMask=")
COMPANY = {line: why for line, why in SERVICE.items() if not line.startswith(_OURS)} | {
    "After=network-online.target": "an address of the network could not be listened on yet",
    "Wants=network-online.target": "nobody would wait for the network",
    "Environment=CMSFS_SERVE_OPTIONS=": "a variable of the manager's own would be its command line",
    "EnvironmentFile=-/etc/cmsfs/serve.env": "no options for all instances",
    "EnvironmentFile=-/etc/cmsfs/serve-%i.env": "no options for one instance",
    "ExecStart=/usr/bin/cmsfs serve --data ${STATE_DIRECTORY} --port %i .*$CMSFS_SERVE_OPTIONS": "no service",
    "TimeoutStartSec=900": "the upgrade of a company's store would be ended",
    "DynamicUser=yes": "it would run as root",
    "StateDirectory=cmsfs-serve/%i": "it would have nowhere to write",
    "StateDirectoryMode=0700": "others could read the service's data",
    "Environment=HOME=%S/cmsfs-serve/%i": "configuration would be looked for in /",
    "UMask=0077": "others could read the service's data",
    "LimitNOFILE=16384": "two thousand connections with a file each would not be had",
    **{
        f"{fence}=yes": "a hole in the service would reach further"
        for fence in (
            "ProtectHome",
            "PrivateDevices",
            "ProtectKernelTunables",
            "ProtectControlGroups",
            "ProtectClock",
        )
    },
    "ProtectSystem=strict": "a hole in the service would reach further",
    "WantedBy=multi-user.target": "it could not be enabled",
}
UNITS = {"cmsfs@.service": DRIVE, "cmsfs-serve.service": SERVICE, "cmsfs-serve@.service": COMPANY}
# What only describes a unit.
WORDS = ("Description=", "Documentation=")


def settings(unit: str) -> list[str]:
    text = (ROOT / "systemd" / unit).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith(("#", "["))]


def missing(lines: list[str], wanted: dict[str, str]) -> list[str]:
    """What follows from the lines that are not there."""

    def holds(line: str, words: str) -> bool:
        return line == words or (
            ".*" in words and re.match(re.sub(r"[${}]", r"\\\g<0>", words), line) is not None
        )

    return [why for words, why in wanted.items() if not any(holds(line, words) for line in lines)]


@pytest.mark.parametrize("unit", UNITS)
def test_each_line_of_a_unit_stands_and_is_missed(unit: str) -> None:
    lines, wanted = settings(unit), UNITS[unit]
    assert missing(lines, wanted) == []
    telling = [line for line in lines if not line.startswith(WORDS)]
    assert len(telling) == len(wanted)  # a new line needs its reason above
    for line in telling:
        assert missing([one for one in lines if one != line], wanted), line


def test_failures_that_a_person_must_mend_are_those_of_the_program() -> None:
    (line,) = [one for one in settings("cmsfs@.service") if one.startswith("RestartPreventExitStatus=")]
    kept = {int(word) for word in line.partition("=")[2].split()}
    wrong = errors.ConfigError("").exit_code
    machine = {mounts.BAD_MOUNTPOINT, mounts.NO_FUSE, instance_lock.ALREADY_RUNNING}
    assert kept == {wrong, user_messages.UNAUTHORISED, *machine}
