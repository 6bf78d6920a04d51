"""Collaboration exemptions: who has one, who may give one."""

import pytest

from cmsfs.models.enterprise import exemptions

PATH = "/collaboration_whitelist_exempt_targets"


@pytest.fixture
async def exemption(api, uwe):
    return await api.ask("POST", PATH, json={"user": {"id": str(uwe.user)}})


async def test_an_exemption(api, uwe, exemption):
    shown = exemptions.Exemption.model_validate(exemption)
    assert shown.type == "collaboration_whitelist_exempt_target"
    assert shown.user is not None and shown.user.login == "uwe@example.com"
    assert shown.enterprise is not None and shown.enterprise.name == "Test Enterprise"
    assert exemption.keys() == {"type", "id", "created_at", "modified_at", "enterprise", "user"}
    assert await api.ask("GET", f"{PATH}/{shown.id}") == exemption
    assert (await api.ask("GET", PATH))["entries"] == [exemption]
    await api.ask("POST", PATH, json={"user": {"id": str(uwe.user)}}, expect=409)
    await api.ask("DELETE", f"{PATH}/{shown.id}", expect=204)
    await api.ask("GET", f"{PATH}/{shown.id}", expect=404)
    assert (await api.ask("GET", PATH))["entries"] == []


@pytest.mark.parametrize("body", [{}, {"user": {}}, {"user": "x"}])
async def test_what_is_no_exemption(api, body):
    await api.ask("POST", PATH, json=body, expect=400)


async def test_nobody_else_is_exempted(api):
    await api.ask("POST", PATH, json={"user": {"id": "5"}}, expect=404)
    for wire_id in ("5", "x", "9" * 30):
        await api.ask("GET", f"{PATH}/{wire_id}", expect=404)


async def test_users_may_do_none_of_it(uwe, exemption):
    one = f"{PATH}/{exemption['id']}"
    for method, path in (("GET", PATH), ("POST", PATH), ("GET", one), ("DELETE", one)):
        await uwe.ask(method, path, expect=403)


async def test_pages(api, uwe, exemption):
    other = await api.ask("POST", PATH, json={"user": {"id": str(api.user)}})
    first = await api.ask("GET", PATH, params={"limit": 1})
    assert (first["entries"], first["limit"], first["prev_marker"]) == ([exemption], 1, None)
    second = await api.ask("GET", PATH, params={"limit": 1, "marker": first["next_marker"]})
    assert (second["entries"], second["next_marker"]) == ([other], None)
    await api.ask("GET", PATH, params={"marker": "x"}, expect=400)
