"""Holds and retention as extended attributes: inherited, told to who may know, unknown to others."""

import pytest

from cmsfs.models.content.metadata import Template
from cmsfs.models.enterprise import retention
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import listed, value

pytestmark = pytest.mark.administers


async def test_holds_and_retention_are_inherited_from_folders(drive: Drive, other: Remote) -> None:
    folder = await other.folder("d")
    number = await other.file("f", b"1", await other.folder("e", folder))
    await other.file("free", b"1")
    hold = await other.client.legal_holds.create("Case 42")
    await other.client.legal_holds.assign(hold.id, "folder", folder)
    second = await other.client.legal_holds.create("Audit")
    await other.client.legal_holds.assign(second.id, "file", number)
    policy = await other.client.retention.create(
        retention.NewRetentionPolicy(
            policy_name="Ten years",
            policy_type="finite",
            disposition_action="remove_retention",
            retention_length=3650,
        )
    )
    await other.client.retention.assign(policy.id, retention.RetentionAssignTo(type="folder", id=folder))
    await drive.names()
    for path in ("d", "d/e"):
        await drive.names(path)
    assert await value(drive, "d/e/f", "hold") == "Audit; Case 42"
    assert await value(drive, "d/e/f", "hold.assigned_to") == "/d/e/f; /d"
    assert await value(drive, "d/e/f", "hold.status") == "active; active"
    assert await value(drive, "d/e", "hold") == "Case 42"
    assert await value(drive, "d", "retention") == "Ten years"
    assert await value(drive, "d/e/f", "retention.length") == "3650 days"
    assert await value(drive, "d/e/f", "retention.action") == "remove_retention"
    assert await value(drive, "d/e/f", "retention.assigned_to") == "/d"
    assert (await value(drive, "d/e/f", "retention.until")).startswith("20")
    assert await value(drive, "free", "hold") == "ENODATA"
    assert await value(drive, "free", "retention") == "ENODATA"
    assert drive.agents.health.requests["policies"] == 1
    assert {"hold", "retention", "retention.until"} <= set(await listed(drive, "d/e/f"))


async def test_who_may_not_read_policies_sees_that(drive: Drive, other: Remote) -> None:
    folder = await other.folder("d")
    number = await other.file("f", b"1", folder)
    hold = await other.client.legal_holds.create("Case 42")
    await other.client.legal_holds.assign(hold.id, "file", number)
    await other.store.write(lambda conn: conn.execute("UPDATE account SET role = 'user'"))
    await drive.names("d")
    assert await value(drive, "d/f", "hold") == "unknown"
    assert await value(drive, "d/f", "retention") == "unknown"
    assert await value(drive, "d/f", "retention.until") == "unknown"
    assert await listed(drive, "d/f") == ["owner"]
    assert drive.agents.health.requests["policies"] == 1


async def test_retention_by_metadata_covers_what_has_the_values(
    drive: Drive, other: Remote, project: Template
) -> None:
    for name, phase in (("f", "build"), ("g", "plan")):
        number = await other.file(name, b"1")
        await other.client.metadata.put("file", number, "project", {"phase": phase})
    await other.file("h", b"1")
    policy = await other.client.retention.create(
        retention.NewRetentionPolicy(
            policy_name="Built", policy_type="indefinite", disposition_action="remove_retention"
        )
    )
    wanted = next(field for field in project.fields if field.key == "phase")
    option = next(option for option in wanted.options if option.key == "build")
    body = {
        "policy_id": policy.id,
        "assign_to": {"type": "metadata_template", "id": project.id},
        "filter_fields": [{"field": wanted.id, "value": option.id}],
    }
    room = other.client.retention
    await room._wire.ask(retention.RetentionAssignment, "POST", room._assignments, body=body)
    await drive.names()
    assert await value(drive, "f", "retention") == "Built"
    assert await value(drive, "f", "retention.until") == "indefinite"
    assert await value(drive, "g", "retention") == "ENODATA"
    assert await value(drive, "h", "retention") == "ENODATA"
