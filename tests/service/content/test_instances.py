"""Instances of metadata: on files and folders, in fields, in search."""

import json

import pytest

from cmsfs.models.content import items, metadata

SCHEMA = "/metadata_templates/schema"
VALUES = {
    "customer": "Ada & Co",
    "amount": 12.5,
    "due": "2026-05-01T02:00:00+02:00",
    "state": "open",
    "regions": ["north", "south"],
}
STORED = VALUES | {"due": "2026-05-01T00:00:00.000Z"}
KINDS = pytest.mark.parametrize("kind", ["files", "folders"])


@pytest.fixture
async def template(api):
    options = {"options": [{"key": "open"}, {"key": "paid"}]}
    regions = {"options": [{"key": "north"}, {"key": "south"}, {"key": "west"}]}
    fields = [
        {"type": "string", "key": "customer", "displayName": "Customer"},
        {"type": "float", "key": "amount", "displayName": "Amount"},
        {"type": "date", "key": "due", "displayName": "Due"},
        {"type": "enum", "key": "state", "displayName": "State"} | options,
        {"type": "multiSelect", "key": "regions", "displayName": "Regions"} | regions,
    ]
    body = {"scope": "enterprise", "templateKey": "invoice", "displayName": "Invoice", "fields": fields}
    return await api.ask("POST", SCHEMA, json=body, expect=201)


async def thing(api, kind, name="thing"):
    """The path of a new file or folder."""
    made = await (api.upload(name, b"x") if kind == "files" else api.folder(name))
    return f"/{kind}/{made['id']}"


@KINDS
async def test_an_instance(api, template, kind):
    item = await thing(api, kind)
    path = f"{item}/metadata/enterprise/invoice"
    assert (await api.ask("GET", path, expect=404))["code"] == "instance_not_found"
    made = await api.ask("POST", path, json=VALUES, expect=201)
    assert {name: value for name, value in made.items() if name[0] != "$"} == STORED
    shown = metadata.Instance.model_validate(made)
    assert shown.values == STORED
    wire_kind, wire_id = kind[:-1], item.rpartition("/")[2]
    assert (shown.parent, shown.scope, shown.template) == (
        f"{wire_kind}_{wire_id}",
        "enterprise_1",
        "invoice",
    )
    assert (shown.version, shown.type_version, shown.can_edit) == (0, 0, True)
    assert shown.type == f"invoice-{template['id']}"
    assert await api.ask("GET", f"{item}/metadata/enterprise_1/invoice") == made
    assert (await api.ask("GET", f"{item}/metadata"))["entries"] == [made]
    assert (await api.ask("POST", path, json={}, expect=409))["code"] == "tuple_already_exists"
    await api.ask("DELETE", path, expect=204)
    await api.ask("DELETE", path, expect=404)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"unknown": "x"}, {"customer": 5}, {"customer": "x" * 10_001}, {"amount": "5"}, {"amount": True}),
        *({"amount": 10**400}, {"due": "tomorrow"}, {"due": 5}, {"state": "lost"}, {"state": ["open"]}),
        *({"regions": "north"}, {"regions": ["east"]}, {"regions": ["north", "north"]}, {"customer": None}),
    ],
    ids=lambda wrong: str(wrong)[:40],
)
async def test_values_that_the_template_does_not_allow(api, template, wrong):
    item = await thing(api, "files")
    path = f"{item}/metadata/enterprise/invoice"
    problem = await api.ask("POST", path, json=VALUES | wrong, expect=400)
    assert problem["code"] == "schema_validation_failed"
    await api.ask("POST", path, json=VALUES, expect=201)
    patch = [{"op": "add", "path": f"/{key}", "value": value} for key, value in wrong.items()]
    await api.ask("PUT", path, json=patch, expect=400)
    assert (await api.ask("GET", path))["$version"] == 0


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b'"x"'])
async def test_what_is_no_instance(api, template, body):
    path = f"{await thing(api, 'files')}/metadata/enterprise/invoice"
    await api.ask("POST", path, content=body, expect=400)


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ([("test", "/state", "open"), ("replace", "/state", "paid")], {"state": "paid"}),
        ([("add", "/customer", "Ben")], {"customer": "Ben"}),
        ([("remove", "/amount", None)], {"amount": None}),
        ([("test", "/due", "2026-05-01T00:00:00Z")], {}),
        ([("test", "/amount", 12.5)], {}),
        ([("move", "/customer", "/state")], {"customer": "open", "state": None}),
        ([("copy", "/customer", "/state")], {"customer": "open"}),
        ([("test", "/state", "paid"), ("replace", "/state", "paid")], 409),
        ([("replace", "/customer", "Ben"), ("test", "/amount", 5)], 409),
        ([("remove", "/amount", None), ("remove", "/amount", None)], 409),
        ([("replace", "/unknown", "x")], 409),
        ([("move", "/customer", "/unknown")], 409),
        ([("add", "/unknown", "x")], 400),
        ([("add", "customer", "x")], 400),
        ([("add", "/a/b", "x")], 400),
        ([("explode", "/customer", "x")], 400),
        ("no patch", 400),
    ],
    ids=str,
)
async def test_a_change_by_json_patch(api, template, patch, changed):
    path = f"{await thing(api, 'files')}/metadata/enterprise/invoice"
    await api.ask("POST", path, json=VALUES, expect=201)
    body = patch
    if isinstance(patch, list):
        body = [
            {"op": op, "path": at} | ({"from": value} if op in ("move", "copy") else {"value": value})
            for op, at, value in patch
        ]
    headers = {"content-type": "application/json-patch+json"}
    refused = isinstance(changed, int)
    answer = await api.ask(
        "PUT", path, content=json.dumps(body), headers=headers, expect=changed if refused else 200
    )
    if changed == 409:
        assert answer["code"] == "failed_json_patch_application"
    wanted = STORED | ({} if refused else changed)
    found = await api.ask("GET", path)
    assert {name: value for name, value in found.items() if name[0] != "$"} == {
        name: value for name, value in wanted.items() if value is not None
    }
    assert found["$version"] == (0 if refused else 1)


async def test_free_properties(api):
    path = f"{await thing(api, 'files')}/metadata/global/properties"
    made = await api.ask("POST", path, json={"any key": "any text"}, expect=201)
    assert (made["any key"], made["$scope"]) == ("any text", "global")
    await api.ask("PUT", path, json=[{"op": "add", "path": "/a~1b", "value": "c"}])
    assert (await api.ask("GET", path))["a/b"] == "c"
    for wrong in ({"$id": "x"}, {'a"b': "x"}, {"a": 5}, {"": "x"}):
        patch = [{"op": "add", "path": f"/{key}", "value": value} for key, value in wrong.items()]
        await api.ask("PUT", path, json=patch, expect=400)


async def test_where_there_is_no_metadata(api, uwe, template):
    await api.ask("GET", "/folders/0/metadata", expect=403)
    await api.ask("POST", "/folders/0/metadata/enterprise/invoice", json={}, expect=403)
    item = await thing(api, "files")
    await api.ask("POST", f"{item}/metadata/enterprise/other", json={}, expect=404)
    await api.ask("POST", f"{item}/metadata/enterprise_2/invoice", json={}, expect=403)
    await api.ask("POST", f"{item}/metadata/enterprise/invoice", json={}, expect=201)
    for method, path in (("GET", ""), ("GET", "/enterprise/invoice"), ("DELETE", "/enterprise/invoice")):
        await uwe.ask(method, f"{item}/metadata{path}", expect=404)
    await api.ask("DELETE", item, expect=204)
    assert (await api.ask("GET", f"{item}/metadata", expect=404))["code"] == "trashed"


async def test_instances_in_fields(api, template):
    item = await thing(api, "files")
    made = await api.ask("POST", f"{item}/metadata/enterprise/invoice", json=VALUES, expect=201)
    free = await api.ask("POST", f"{item}/metadata/global/properties", json={"a": "b"}, expect=201)

    async def shown(asked):
        return (await api.ask("GET", item, params={"fields": asked})).get("metadata")

    ours, everybodys = {"enterprise_1": {"invoice": made}}, {"global": {"properties": free}}
    for asked in (
        "metadata.enterprise.invoice",
        "name,metadata.enterprise_1.Invoice",
        "metadata.enterprise_1",
    ):
        assert await shown(asked) == ours
    assert await shown("metadata.global.properties") == everybodys
    assert await shown("metadata") == ours | everybodys
    assert await shown("metadata.enterprise.invoice,metadata.global.properties") == ours | everybodys
    assert await shown("metadata.enterprise.other") == {}
    assert await shown("name") is None
    found = await api.search(fields="metadata.enterprise.invoice")
    assert [one["metadata"] for one in found["entries"]] == [ours]
    items.parse_item(found["entries"][0])


async def test_a_classification(api):
    field = {
        "type": "enum",
        "key": metadata.CLASSIFICATION_FIELD,
        "displayName": "Classification",
        "options": [
            {
                "key": "Secret",
                "staticConfig": {"classification": {"classificationDefinition": "Ours", "colorHex": "#f00"}},
            }
        ],
    }
    body = {
        "scope": "enterprise",
        "templateKey": metadata.CLASSIFICATION,
        "displayName": "C",
        "fields": [field],
    }
    await api.ask("POST", SCHEMA, json=body, expect=201)
    item = await thing(api, "files")
    assert (await api.ask("GET", f"{item}?fields=classification"))["classification"] is None
    path = f"{item}/metadata/enterprise/{metadata.CLASSIFICATION}"
    await api.ask("POST", path, json={metadata.CLASSIFICATION_FIELD: "Secret"}, expect=201)
    found = await api.ask("GET", f"{item}?fields=classification")
    assert found["classification"] == {"name": "Secret", "definition": "Ours", "color": "#f00"}


@pytest.fixture
async def drawer(api, template):
    """Three invoices and a thing without metadata."""
    folder = await api.folder("drawer")
    rows = [
        ("a", {"amount": 10, "due": "2026-01-01T00:00:00Z", "state": "open", "regions": ["north", "south"]}),
        ("b", {"amount": 20.5, "due": "2026-02-01T00:00:00Z", "state": "paid", "regions": ["west"]}),
        ("c", {"customer": "My big deal", "amount": 30, "regions": []}),
    ]
    for name, values in rows:
        file = await api.upload(name, b"words", folder["id"])
        await api.ask("POST", f"/files/{file['id']}/metadata/enterprise/invoice", json=values, expect=201)
    await api.upload("d", b"words", folder["id"])
    return folder


async def matching(api, filters, *, expect=200, scope="enterprise", key="invoice", **params):
    wanted = json.dumps([{"scope": scope, "templateKey": key, "filters": filters}])
    found = await api.ask("GET", "/search", params={"mdfilters": wanted} | params, expect=expect)
    return found if expect != 200 else "".join(sorted(one["name"] for one in found["entries"]))


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, "abc"),
        ({"customer": "My big deal"}, "c"),
        ({"customer": "my big deal"}, ""),
        ({"state": "open"}, "a"),
        ({"regions": ["west", "north"]}, "ab"),
        ({"regions": []}, ""),
        ({"amount": 20.5}, "b"),
        ({"amount": {"gt": 10, "lt": 20.5}}, "ab"),
        ({"amount": {"gt": 20.6}}, "c"),
        ({"amount": {"lt": 10}}, "a"),
        ({"due": {"gt": "2026-01-01T01:00:00+01:00", "lt": "2026-01-31T00:00:00Z"}}, "a"),
        ({"due": {"lt": "2026-02-01T00:00:00Z"}}, "ab"),
        ({"amount": {"gt": 15}, "state": "paid"}, "b"),
    ],
    ids=str,
)
async def test_a_search_by_metadata(api, drawer, filters, names):
    assert await matching(api, filters) == names
    assert await matching(api, filters, scope="enterprise_1") == names
    assert await matching(api, filters, query="words") == names
    assert await matching(api, filters, query='NOT "improbable"', ancestor_folder_ids=drawer["id"]) == names
    assert await matching(api, filters, ancestor_folder_ids=drawer["id"], sort="modified_at") == names
    assert await matching(api, filters, type="folder") == ""


@pytest.mark.parametrize(
    ("filters", "more"),
    [
        *(({"unknown": "x"}, {}), ({"customer": 5}, {}), ({"regions": "west"}, {}), ({"amount": "5"}, {})),
        *(({"amount": {}}, {}), ({"amount": {"eq": 5}}, {}), ({"amount": {"gt": "5"}}, {})),
        *(({"due": "2026-01-01T00:00:00Z"}, {}), ({"due": {"gt": "yesterday"}}, {}), ({"amount": True}, {})),
        *(({}, {"key": "other"}), ({}, {"scope": "mine"}), ({}, {"key": "a b"})),
    ],
    ids=str,
)
async def test_what_cannot_be_searched(api, drawer, filters, more):
    problem = await matching(api, filters, expect=400, **more)
    assert problem["code"] == "invalid_parameter"


async def test_a_search_sees_what_the_caller_sees(api, uwe, drawer):
    assert await matching(uwe, {}) == ""
    await matching(api, {}, scope="enterprise_2", expect=403)
    file = await uwe.upload("mine", b"x")
    await uwe.ask("POST", f"/files/{file['id']}/metadata/global/properties", json={"a b": "c"}, expect=201)
    assert await matching(uwe, {"a b": "c"}, scope="global", key="properties") == "mine"
    assert await matching(uwe, {'a"b': "c"}, scope="global", key="properties", expect=400)
    await api.ask("DELETE", f"/folders/{drawer['id']}?recursive=true", expect=204)
    assert await matching(api, {}) == ""
