"""A drive that stays mounted (`keep_mounted`) as a unit of a real systemd, which keeps its descriptors."""

import json
from functools import partial

import pytest

from cmsfs.fuse import takeover
from tests.support.machine import Person, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not takeover.can_expire_names(), reason="this kernel does not know names in doubt"),
]

# Writes lines to one open file until it is told to end.
WRITER = """
import os, time
log = os.open(os.path.expanduser("~/cmsfs/log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number = 0
while not os.path.exists("/tmp/enough"):
    os.write(log, b"line %d\\n" % number)
    open("/tmp/written", "w").write(str(number))
    number += 1
    time.sleep(0.02)
os.close(log)
open("/tmp/ended", "w").close()
"""


def _written(person: Person) -> int:
    return int(person.sh("cat /tmp/written", check=False).stdout or -1)


def _runs_anew(person, pid):
    return person.unit("MainPID") not in ("0", pid) and person.unit() == "active"


def _goes_on(person: Person) -> None:
    before = _written(person)
    until(lambda: _written(person) > before + 10, what="the program does not go on")


def _mount(person: Person) -> str:
    """The number of the mount, which another one would not have."""
    lines = person.machine.sh("cat /proc/self/mountinfo").stdout.splitlines()
    (found,) = [line.split()[0] for line in lines if f" {person.home}/cmsfs " in line]
    return found


def _pid(person: Person) -> int:
    return int(json.loads(person.sh("cmsfs status --json").stdout)["pid"])


def test_a_program_goes_on_across_kills_and_upgrades(newer_person: Person) -> None:
    person = newer_person
    person.serve()
    person.sh("echo keep_mounted = true >> .config/cmsfs/config.toml; cmsfs mount --enable")
    assert person.unit("NFileDescriptorStore") == "4"
    mount = _mount(person)
    person.sh(f"cat > writer.py <<'END'\n{WRITER}END\nsetsid python3 writer.py > writer.out 2>&1 &")
    _goes_on(person)
    person.sh("exec 3<cmsfs/Welcome.md; sleep 1 <&3; cat <&3 > welcome.before")
    for number in range(3):
        pid = person.unit("MainPID")
        person.sh(f"kill -9 {pid}")
        until(partial(_runs_anew, person, pid))
        _goes_on(person)
        assert person.unit("NRestarts") == str(number + 1)
        assert person.unit("NFileDescriptorStore") == "4"
        person.sh("systemctl --user reload cmsfs@default.service")
        assert person.unit("MainPID") == str(_pid(person)) != pid
        _goes_on(person)
        assert _mount(person) == mount
    person.sh("touch /tmp/enough")
    until(lambda: person.sh("test -e /tmp/ended", check=False).returncode == 0)
    assert person.sh("cat writer.out").stdout == ""
    count = _written(person) + 1
    person.sh("cmsfs sync")
    assert person.sh("cat cmsfs/log").stdout == "".join(f"line {number}\n" for number in range(count))
    assert person.sh("cmsfs get /log -").stdout == person.sh("cat cmsfs/log").stdout
    person.sh("cmsfs umount")
    until(lambda: person.unit() == "inactive")
    assert not person.is_mounted()
    assert person.unit("NFileDescriptorStore") == "0"
