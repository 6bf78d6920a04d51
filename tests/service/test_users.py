"""Users: me, and others for who may look."""

from cmsfs.models import users


async def test_me(api):
    me = users.User.model_validate(await api.ask("GET", "/users/me"))
    assert (me.id, me.login, me.space_used) == (str(api.user), "ann@example.com", 0)
    assert me.created_at is not None and me.space_amount is not None and me.space_amount > 0
    found = await api.ask("GET", f"/users/{api.user}?fields=role,enterprise,nonsense")
    assert found.keys() == {"type", "id", "name", "login", "role", "enterprise"}
    assert (found["role"], found["enterprise"]["name"]) == ("admin", "Test Enterprise")


async def test_every_field_of_the_specification_can_be_asked(api):
    wanted = set(users.User.model_fields)
    found = await api.ask("GET", "/users/me", params={"fields": ",".join(wanted)})
    assert found.keys() == wanted


async def test_others(api, uwe):
    assert (await api.ask("GET", f"/users/{uwe.user}"))["login"] == "uwe@example.com"
    await uwe.ask("GET", f"/users/{uwe.user}")
    await uwe.ask("GET", f"/users/{api.user}", expect=403)
    for wire_id in ("1", "x", "9" * 30):
        await api.ask("GET", f"/users/{wire_id}", expect=404)


async def test_an_administrator_may_act_as_another_user(api, uwe):
    await uwe.folder("mine")
    found = await api.ask("GET", "/folders/0/items", headers={"as-user": str(uwe.user)})
    assert [one["name"] for one in found["entries"]] == ["mine"]
    await api.ask("GET", "/users/me", headers={"as-user": "5"}, expect=403)
    await uwe.ask("GET", "/users/me", headers={"as-user": str(api.user)}, expect=403)
