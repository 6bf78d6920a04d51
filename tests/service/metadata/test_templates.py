"""Metadata templates: made, listed, changed, deleted with their instances."""

from typing import Any

import pytest

from cmsfs.models.content import metadata

PATH = "/metadata_templates"
FIELDS: list[dict[str, Any]] = [
    {"type": "string", "key": "customer", "displayName": "Customer"},
    {"type": "float", "key": "amount", "displayName": "Amount"},
    {"type": "date", "key": "due", "displayName": "Due"},
    {"type": "enum", "key": "state", "displayName": "State", "options": [{"key": "open"}, {"key": "paid"}]},
    {
        "type": "multiSelect",
        "key": "regions",
        "displayName": "Regions",
        "hidden": True,
        "options": [{"key": "north"}, {"key": "south"}, {"key": "west"}],
    },
]
NEW = {"scope": "enterprise", "templateKey": "invoice", "displayName": "Invoice", "fields": FIELDS}


@pytest.fixture
async def template(api):
    return await api.ask("POST", f"{PATH}/schema", json=NEW, expect=201)


async def test_a_new_template(api, uwe, template):
    shown = metadata.Template.model_validate(template)
    assert (shown.scope, shown.template_key, shown.display_name) == ("enterprise_1", "invoice", "Invoice")
    assert (shown.hidden, shown.copy_instance_on_item_copy) == (False, False)
    assert [one.key for one in shown.fields or ()] == ["customer", "amount", "due", "state", "regions"]
    assert all(one["id"] for one in template["fields"])
    assert [one["key"] for one in template["fields"][3]["options"]] == ["open", "paid"]
    for caller in (api, uwe):
        for path in ("enterprise/invoice/schema", "enterprise_1/Invoice/schema", template["id"]):
            assert await caller.ask("GET", f"{PATH}/{path}") == template
        assert (await caller.ask("GET", f"{PATH}/enterprise"))["entries"] == [template]
    found = (await api.ask("GET", f"{PATH}/global"))["entries"]
    assert {one["scope"] for one in found} == {"global"}
    assert [one["templateKey"] for one in found] == ["properties", "boxSkillsCards"]
    await api.ask("POST", f"{PATH}/schema", json=NEW | {"templateKey": "INVOICE"}, expect=409)


async def test_a_key_is_made_of_the_name(api):
    body = {"scope": "enterprise_1", "displayName": "Order of the day"}
    assert (await api.ask("POST", f"{PATH}/schema", json=body, expect=201))["templateKey"] == "orderOfTheDay"


async def test_field_key_comes_from_name(api, template):
    fields = [
        {"type": "string", "displayName": "Name of the ship"},
        {"type": "float", "displayName": "7 seas"},
    ]
    body = {"scope": "enterprise", "displayName": "Ships", "fields": fields}
    made = await api.ask("POST", f"{PATH}/schema", json=body, expect=201)
    assert [one["key"] for one in made["fields"]] == ["nameOfTheShip", "field7Seas"]
    twice = body | {"templateKey": "other", "fields": [fields[0], fields[0]]}
    await api.ask("POST", f"{PATH}/schema", json=twice, expect=400)
    operations = [
        {"op": "addField", "data": {"type": "string", "displayName": "Home port"}},
        {"op": "addField", "fieldKey": "flag", "data": {"type": "string", "displayName": "Flag of it"}},
        {"op": "editField", "fieldKey": "HOMEPORT", "data": {"hidden": True}},
        {"op": "removeField", "fieldKey": "NameOfTheShip"},
    ]
    path = f"{PATH}/enterprise/ships/schema"
    changed = await api.ask("PUT", path, json=operations)
    assert [(one["key"], one["hidden"]) for one in changed["fields"]] == [
        ("field7Seas", False),
        ("homePort", True),
        ("flag", False),
    ]


@pytest.mark.parametrize(
    ("wrong", "expect"),
    [
        *(({"scope": "global"}, 403), ({"scope": "enterprise_2"}, 403), ({"scope": "mine"}, 400)),
        *(({"templateKey": "a b"}, 400), ({"displayName": ""}, 400), ({"templateKey": "k" * 65}, 400)),
        *(({"fields": [FIELDS[0], FIELDS[0]]}, 400), ({"fields": [FIELDS[0] | {"type": "color"}]}, 400)),
        *(({"fields": [FIELDS[0] | {"key": "a.b"}]}, 400), ({"fields": 5}, 400)),
        ({"fields": [FIELDS[0] | {"options": [{"key": "a"}]}]}, 400),
        ({"fields": [FIELDS[3] | {"options": [{"key": "a"}, {"key": "a"}]}]}, 400),
    ],
    ids=str,
)
async def test_what_is_no_template(api, wrong, expect):
    await api.ask("POST", f"{PATH}/schema", json=NEW | wrong, expect=expect)


async def test_a_template_goes_with_its_instances(api, template):
    file, folder = await api.upload("file", b"x"), await api.folder("folder")
    for path in (f"/files/{file['id']}", f"/folders/{folder['id']}"):
        await api.ask("POST", f"{path}/metadata/enterprise/invoice", json={"amount": 5}, expect=201)
    await api.ask("DELETE", f"{PATH}/enterprise/invoice/schema", expect=204)
    for path in (f"/files/{file['id']}", f"/folders/{folder['id']}"):
        assert (await api.ask("GET", f"{path}/metadata"))["entries"] == []
        found = await api.ask("GET", f"{path}?fields=metadata.enterprise.invoice")
        assert found["metadata"] == {}
    await api.ask("GET", f"{PATH}/enterprise/invoice/schema", expect=404)
    await api.ask("DELETE", f"{PATH}/enterprise/invoice/schema", expect=404)
    await api.ask("POST", f"{PATH}/schema", json=NEW, expect=201)
    assert (await api.ask("GET", f"/files/{file['id']}/metadata"))["entries"] == []


@pytest.mark.parametrize(
    ("path", "expect"),
    [
        *(("enterprise/in.voice", 400), ("mine/invoice", 400), ("enterprise_x/invoice", 400)),
        *(("enterprise_2/invoice", 403), ("global/properties", 403), ("enterprise/other", 404)),
        ("enterprise/" + "k" * 65, 400),
    ],
)
async def test_what_cannot_be_deleted(api, template, path, expect):
    await api.ask("DELETE", f"{PATH}/{path}/schema", expect=expect)
    assert (await api.ask("GET", f"{PATH}/enterprise"))["entries"] == [template]


async def test_users_change_nothing(uwe, template):
    await uwe.ask("POST", f"{PATH}/schema", json=NEW | {"templateKey": "other"}, expect=403)
    await uwe.ask("PUT", f"{PATH}/enterprise/invoice/schema", json=[], expect=403)
    await uwe.ask("DELETE", f"{PATH}/enterprise/invoice/schema", expect=403)


async def test_the_template_of_an_instance(api, template):
    file = await api.upload("file", b"x")
    made = await api.ask("POST", f"/files/{file['id']}/metadata/enterprise/invoice", json={}, expect=201)
    found = await api.ask("GET", PATH, params={"metadata_instance_id": made["$id"]})
    assert found["entries"] == [template]
    await api.ask("GET", PATH, expect=400)


async def test_operations_change_the_schema_and_what_instances_hold(api, template):
    file = await api.upload("file", b"x")
    path = f"/files/{file['id']}/metadata/enterprise/invoice"
    values = {"customer": "Ada", "state": "open", "regions": ["north", "south"], "amount": 5}
    await api.ask("POST", path, json=values, expect=201)
    operations = [
        {"op": "editTemplate", "data": {"displayName": "Bill", "copyInstanceOnItemCopy": True}},
        {"op": "addField", "data": {"type": "string", "key": "note", "displayName": "Note"}},
        {"op": "editField", "fieldKey": "amount", "data": {"displayName": "Sum"}},
        {"op": "removeField", "fieldKey": "customer"},
        {"op": "reorderFields", "fieldKeys": ["note", "amount", "due", "state", "regions"]},
        {"op": "addEnumOption", "fieldKey": "state", "data": {"key": "late"}},
        {"op": "editEnumOption", "fieldKey": "state", "enumOptionKey": "open", "data": {"key": "new"}},
        {"op": "reorderEnumOptions", "fieldKey": "state", "enumOptionKeys": ["late", "new", "paid"]},
        {"op": "removeMultiSelectOption", "fieldKey": "regions", "multiSelectOptionKey": "north"},
    ]
    changed = await api.ask("PUT", f"{PATH}/enterprise/invoice/schema", json=operations)
    assert (changed["displayName"], changed["copyInstanceOnItemCopy"]) == ("Bill", True)
    assert [one["key"] for one in changed["fields"]] == ["note", "amount", "due", "state", "regions"]
    assert [one["key"] for one in changed["fields"][3]["options"]] == ["late", "new", "paid"]
    found = await api.ask("GET", path)
    kept = {name: value for name, value in found.items() if not name.startswith("$")}
    assert kept == {"state": "new", "regions": ["south"], "amount": 5}
    copy = await api.ask(
        "POST", f"/files/{file['id']}/copy", json={"parent": {"id": "0"}, "name": "c"}, expect=201
    )
    instance = await api.ask("GET", f"/files/{copy['id']}/metadata/enterprise/invoice")
    assert (instance["amount"], instance["$id"] != found["$id"]) == (5, True)


@pytest.mark.parametrize(
    "operation",
    [
        *({"op": "explode"}, {"op": "removeField", "fieldKey": "nothing"}, {"op": "reorderFields"}),
        *({"op": "addField", "data": FIELDS[0]}, {"op": "addField", "data": {}}),
        {"op": "editField", "fieldKey": "amount", "data": {"key": "sum"}},
        {"op": "addEnumOption", "fieldKey": "amount", "data": {"key": "x"}},
        {"op": "addEnumOption", "fieldKey": "state", "data": {"key": "open"}},
        {"op": "removeEnumOption", "fieldKey": "state", "enumOptionKey": "nothing"},
        {"op": "editEnumOption", "fieldKey": "state", "enumOptionKey": "open", "data": {"key": "paid"}},
    ],
    ids=str,
)
async def test_operations_are_done_all_or_none(api, template, operation):
    first = {"op": "editTemplate", "data": {"displayName": "Other"}}
    await api.ask("PUT", f"{PATH}/enterprise/invoice/schema", json=[first, operation], expect=400)
    assert await api.ask("GET", f"{PATH}/enterprise/invoice/schema") == template
