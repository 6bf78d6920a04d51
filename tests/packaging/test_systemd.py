"""The units under a real systemd, for a user who is nobody in particular.

enable, start, use, kill -9, hang, stop with a full queue, start again, restart the machine
"""

import json
import time

import pytest

from tests.support import documents

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_the_service_of_a_company(installed):
    done = installed.sh("systemd-analyze verify /usr/lib/systemd/system/cmsfs-serve@.service")
    assert done.stderr == ""
    installed.sh(
        "mkdir -p /etc/cmsfs; umask 077; "
        "echo CMSFS_SERVE_OPTIONS=--metrics 9477 > /etc/cmsfs/serve-8477.env; "
        "systemctl enable --now cmsfs-serve@8477.service"
    )
    ask = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{}\").read().decode())'"
    assert installed.sh(ask.format("8477/readyz")).stdout.strip() == "ok"
    assert "\ncmsfs_users " in installed.sh(ask.format("9477/metrics")).stdout
    shown = installed.sh("systemctl show -P MainPID -P User cmsfs-serve@8477.service").stdout.split()
    owner = installed.sh(f"stat -c %u /proc/{shown[0]}").stdout.strip()
    assert int(owner) >= 61184  # one of those that the manager gives for a while
    assert installed.sh("stat -c %a /var/lib/private/cmsfs-serve/8477/service.db").stdout.strip() == "600"
    installed.sh("systemctl kill -s KILL cmsfs-serve@8477.service")
    until(lambda: installed.sh(ask.format("8477/healthz"), check=False).returncode == 0)
    installed.sh("systemctl disable --now cmsfs-serve@8477.service")
    assert installed.sh("systemctl show -P Result cmsfs-serve@8477.service").stdout.strip() == "success"


def mounted(person) -> None:
    person.serve()
    person.sh("cmsfs mount --enable")


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def status(person):
    return json.loads(person.sh("cmsfs status --json").stdout)


def test_systemd_finds_nothing_wrong(installed):
    done = installed.sh(
        "XDG_RUNTIME_DIR=/tmp systemd-analyze verify --user /usr/lib/systemd/user/cmsfs@.service "
        "/usr/lib/systemd/user/cmsfs-serve.service"
    )
    assert done.stderr == ""


def test_enabled_used_and_closed_to_others(person):
    mounted(person)
    assert "Welcome.md" in person.sh("ls cmsfs").stdout
    assert person.unit("StatusText") == "online"
    assert person.unit() == "active"
    person.sh("echo one > cmsfs/new.txt; cmsfs sync")
    assert person.sh("cmsfs get /new.txt -").stdout == "one\n"
    assert person.sh("systemctl --user is-enabled cmsfs@default.service").stdout == "enabled\n"
    # Neither root nor anybody else looks into the drive or the state.
    assert person.machine.sh(f"ls {person.home}/cmsfs", check=False).returncode != 0
    other = person.machine.sh(f"runuser -u nobody -- ls {person.home}/.local/state/cmsfs", check=False)
    assert other.returncode != 0
    # The installed version takes over, and the manager knows the new process.
    before = person.unit("MainPID")
    person.sh("exec 3<cmsfs/new.txt; systemctl --user reload cmsfs@default.service; grep one <&3")
    assert person.unit("MainPID") == str(status(person)["pid"]) != before
    until(lambda: person.unit("StatusText") == "online")
    done = person.sh("cmsfs umount")
    assert "is unmounted" in done.stdout
    until(lambda: person.unit() == "inactive")
    assert not person.is_mounted()
    assert person.unit("NRestarts") == "0"


def test_killed_daemon_is_restarted_without_dead_mount(person):
    mounted(person)
    person.sh("echo kept > cmsfs/kept.txt")
    first = status(person)["pid"]
    person.sh(f"kill -9 {first}")
    until(lambda: person.unit("MainPID") not in ("0", str(first)) and person.unit() == "active")
    assert person.sh("cat cmsfs/kept.txt").stdout == "kept\n"
    assert person.machine.sh("grep -c 'fuse.cmsfs' /proc/mounts").stdout.strip() == "1"


def test_hung_daemon_is_restarted(person):
    person.sh(
        "mkdir -p .config/systemd/user/cmsfs@.service.d; "
        "printf '[Service]\\nWatchdogSec=3\\n' > .config/systemd/user/cmsfs@.service.d/soon.conf"
    )
    mounted(person)
    first = person.unit("MainPID")
    person.sh(f"kill -STOP {first}")
    until(lambda: person.unit("MainPID") not in ("0", first) and person.unit() == "active")
    assert person.unit("NRestarts") == "1"
    assert "Welcome.md" in person.sh("ls cmsfs").stdout
    assert (
        "Watchdog timeout"
        in person.machine.sh(f"journalctl _UID={person.uid} --no-pager", check=False).stdout
    )


def test_stop_keeps_full_queue(person):
    mounted(person)
    person.sh("systemctl --user stop cmsfs-serve.service")
    person.sh(
        "mkdir cmsfs/queue; cd cmsfs/queue; for i in $(seq 40); do head -c 20000 /dev/urandom > $i; done"
    )
    sums = person.sh("cd cmsfs/queue; sha1sum *").stdout
    person.sh("systemctl --user stop cmsfs@default.service")
    assert person.unit("Result") == "success"
    assert not person.is_mounted()
    person.sh("systemctl --user start cmsfs@default.service")
    until(lambda: person.unit("StatusText").startswith("offline"))
    assert person.sh("cd cmsfs/queue; sha1sum *").stdout == sums
    person.sh("systemctl --user start cmsfs-serve.service; cmsfs sync --timeout 120")
    assert status(person)["queue"]["waiting"] == 0
    assert len(person.sh("cmsfs find queue --json").stdout) > 10


def test_permanent_failure_is_not_restarted(person):
    person.sh("mkdir -p .config/cmsfs; echo 'profile = \"specification\"' > .config/cmsfs/config.toml")
    done = person.sh("cmsfs mount --systemd", check=False)
    assert done.returncode == 2
    person.sh("rm .config/cmsfs/config.toml")
    done = person.sh("cmsfs mount --systemd", check=False)
    assert "Not logged in" in done.stderr
    assert done.returncode == 2
    assert person.unit() in ("inactive", "failed")
    assert not person.is_mounted()


def test_unit_lets_what_a_person_must_mend_rest(person):
    """`RestartPreventExitStatus`: a start that cannot help is not repeated."""
    person.sh("mkdir -p .config/cmsfs; echo 'nonsense = 1' > .config/cmsfs/config.toml")
    person.sh("systemctl --user start cmsfs@default.service", check=False)
    assert person.unit() == "failed"
    assert person.unit("NRestarts") == "0"


def test_files_of_the_drive_are_this_users(person):
    """`UMask`: whatever the daemon writes is closed to others, also where it does not say so itself."""
    mounted(person)
    assert "Umask:\t0077" in person.machine.sh(f"cat /proc/{status(person)['pid']}/status").stdout


def test_drive_is_mounted_after_a_reboot(person):
    mounted(person)
    person.sh("echo before > cmsfs/before.txt; cmsfs sync")
    person.machine.halt()
    person.machine.boot()
    until(lambda: person.unit() == "active")
    assert person.sh("cat cmsfs/before.txt").stdout == "before\n"


def test_fifty_restarts_leave_no_dead_mount(person):
    mounted(person)
    for _ in range(50):
        # The manager counts these, too, as starts that come too often.
        person.sh("systemctl --user reset-failed cmsfs@default.service")
        person.sh("systemctl --user restart cmsfs@default.service && ls cmsfs/Welcome.md")
    assert person.machine.sh("grep -c 'fuse.cmsfs' /proc/mounts").stdout.strip() == "1"


def test_what_the_administrations_guide_has_typed(person):
    """The unit's block, line by line as it stands there."""
    document = documents.ROOT / "packaging" / "ADMINISTRATION.md"
    texts = [command.text for command in documents.of(document) if command.is_block]
    found = [text for text in texts if text.startswith(("systemctl ", "journalctl "))]
    assert len(found) == 4
    mounted(person)
    for text in found:
        person.sh(text)
    until(lambda: not person.is_mounted())
    assert person.sh("systemctl --user is-enabled cmsfs@default.service", check=False).stdout == "disabled\n"
    person.sh("systemctl --user enable --now cmsfs@default.service")
    assert "Welcome.md" in person.sh("ls cmsfs").stdout
