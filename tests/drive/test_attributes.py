"""Extended attributes with the tools that people have, and what copying programs make of them."""

import subprocess
from pathlib import Path

from cmsfs.service.provisioning import samples
from tests.support.mounted_drive import MountedDrive


def failing(drive: MountedDrive, script: str) -> str:
    """What a command that must fail prints."""
    done = subprocess.run(["bash", "-c", script], cwd=drive.top, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0, done.stdout
    return done.stderr


def value(drive: MountedDrive, path: str, name: str) -> str:
    return str(drive.sh(f"getfattr --only-values -n 'user.cms.{name}' '{path}'"))


def log_of(drive: MountedDrive) -> str:
    return "".join(path.read_text() for path in drive.home.rglob("cmsfsd.log"))


def test_attributes_with_ordinary_tools(drive: MountedDrive, tmp_path: Path) -> None:
    # Metadata: read, set, removed, judged.
    plan = samples.DESCRIBED
    field = "metadata.enterprise.project."
    assert value(drive, plan, field + "phase") == "build"
    drive.sh(f"setfattr -n user.cms.{field}phase -v plan '{plan}'; setfattr -x user.cms.{field}lead '{plan}'")
    assert value(drive, plan, field + "phase") == "plan"
    assert "No such attribute" in failing(drive, f"getfattr -n user.cms.{field}lead '{plan}'")
    assert "Invalid argument" in failing(drive, f"setfattr -n user.cms.{field}phase -v over '{plan}'")
    assert (
        "metadata enterprise.project.phase cannot be set to this value: it must be one of plan, build"
        in log_of(drive)
    )
    glance = drive.sh(f"getfattr -d '{plan}'")
    assert f'user.cms.{field}phase="plan"' in glance
    assert 'user.cms.owner="Ada Example <ada@example.com>"' in glance

    # Holds and retention, inherited.
    retained = drive.sh(f"find '{samples.RETAINED}' -type f | head -1").strip()
    assert value(drive, retained, "retention") == samples.RETENTION.policy_name
    assert value(drive, retained, "retention.assigned_to") == f"/{samples.RETAINED}"
    assert value(drive, retained, "retention.until").startswith("20")
    held = drive.sh(f"find '{samples.HELD}' -type f | head -1").strip()
    assert value(drive, held, "hold") == samples.HOLD.policy_name
    # It goes into the trash, and that is at the service when `rm` ends.
    drive.sh(f"rm '{held}'")
    assert drive.status()["queue"]["waiting"] == 0

    # A desktop sees them as any other attributes.
    drive.sh("mkdir t; printf one > t/a; printf two > t/b; gio set t/a xattr::xdg.tags 'red,round'")
    drive.sh("setfattr -n user.cms.description -v 'Start here' t/a; setfattr -n user.colour -v red t/b")
    assert "xattr::cms.tags: red,round" in drive.sh("gio info -a 'xattr::*' t/a")
    drive.sync()

    # Copying programs succeed in both directions, and again.
    disk = tmp_path / "disk"
    disk.mkdir()
    drive.sh(
        f"""
        cp -a t {disk}/; rsync -aX t/ {disk}/r/; rsync -aX t/ {disk}/r/; tar --xattrs -cf {disk}/t.tar t
        cp -a {disk}/t t2; rsync -aX {disk}/t/ t3/; rsync -aX t/ t4/
        mkdir t5; tar --xattrs -C t5 -xf {disk}/t.tar
        cp -a t t6; mv t6 {disk}/t6; mv {disk}/t6 t7
        """
    )
    drive.sync()
    drive.sh(f"rsync -aX {disk}/t/ t3/; rsync -aX t/ t4/; rsync -aX {disk}/t/ t2/")
    drive.sync()
    for copy in (f"{disk}/t/a", f"{disk}/r/a", "t2/a", "t3/a", "t4/a", "t5/t/a", "t7/a"):
        assert value(drive, copy, "tags") == "red,round", copy
        assert value(drive, copy, "description") == "Start here", copy
    assert "not supported" in failing(drive, "setfattr -n user.cms.id -v 1 t3/a")
    # A copy is an item of its own, whatever it was a copy of.
    assert len({value(drive, f"{folder}/a", "id") for folder in ("t", "t2", "t3", "t4")}) == 4

    # What is freed is online only, the kernel's pages too: whoever reads it again has it fetched.
    drive.sh("head -c 300000 /dev/urandom > t/large; cp t/large t2/twin; sha1sum t/large > sum")
    drive.sync()
    drive.sh("sha1sum -c sum; cat t2/twin > /dev/null")
    drive.cmsfs("free", drive.top / "t")
    for path in ("t/large", "t2/twin"):
        assert value(drive, path, "cached") == "0"
    drive.sh("sha1sum -c sum")
    for path in ("t/large", "t2/twin"):
        assert value(drive, path, "cached") == "300000"


def test_history_tells_who_did_what(drive: MountedDrive) -> None:
    drive.sh("echo one > a")
    drive.cmsfs("sync")
    drive.sh("mv a b; echo two > b")
    drive.cmsfs("sync")
    told = value(drive, "b", "history").splitlines()
    assert told[0].split("  ")[1:] == ["Ada Example", "uploaded"]
    assert {line.split("  ")[2] for line in told} == {"uploaded", "renamed"}
    assert "history" not in drive.sh("getfattr -d b 2> /dev/null")
    assert "No such attribute" in failing(drive, "echo x > .~lock.c#; getfattr -n user.cms.history .~lock.c#")
