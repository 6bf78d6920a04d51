"""The end of users' sessions, by an administrator."""

import trio

PATH = "/users/terminate_sessions"
DONE = {"message": "Request is successful, please check the admin events for the status of the job"}


async def _end(api, *, expect=202, **named):
    return await api.ask("POST", PATH, json={"user_ids": [], "user_logins": []} | named, expect=expect)


async def test_all_that_was_given_out_ends(api, uwe, service):
    owner = (uwe.user,)

    def txn(conn):
        conn.execute("INSERT INTO family (app, account, expires_at) VALUES ('tests', ?, 9e18)", owner)
        conn.execute(
            "INSERT INTO code (hash, app, account, redirect_uri, expires_at)"
            " VALUES ('c', 'tests', ?, 'r', 9e18)",
            owner,
        )
        conn.execute("INSERT INTO login (hash, account, expires_at) VALUES ('l', ?, 9e18)", owner)

    await service.write(txn)
    narrowed = await uwe.narrowed("item_download")
    await uwe.ask("GET", "/users/me")
    assert await _end(api, user_ids=[str(uwe.user)]) == DONE
    await uwe.ask("GET", "/users/me", expect=401)
    assert await uwe.status(narrowed) == 401
    for table in ("token", "family", "code", "login"):
        assert service.read(f"SELECT 1 FROM {table} WHERE account = ?", uwe.user) == []
    # Nobody else's end, and who may come in comes in again.
    await api.ask("GET", "/users/me")
    await uwe.log_in()
    await uwe.ask("GET", "/users/me")


async def test_by_login(api, uwe):
    await _end(api, user_logins=["UWE@example.com"])
    await uwe.ask("GET", "/users/me", expect=401)


async def test_one_unknown_user_leaves_all_as_they_are(api, uwe):
    await _end(api, user_ids=[str(uwe.user), "77"], expect=404)
    await _end(api, user_ids=[str(uwe.user)], user_logins=["nobody@example.com"], expect=404)
    await _end(api, expect=400)
    await api.ask("POST", PATH, json={}, expect=400)
    await _end(api, user_ids=str(uwe.user), expect=400)
    await uwe.ask("GET", "/users/me")


async def test_administrators_alone_do_that(api, uwe, people):
    await _end(uwe, user_ids=[str(uwe.user)], expect=403)
    other = await people.add("co@example.com")
    await api.ask("PUT", f"/users/{other.user}", json={"role": "coadmin"})
    await _end(other, user_ids=[str(uwe.user), str(api.user)], expect=403)
    await uwe.ask("GET", "/users/me")
    await _end(other, user_ids=[str(uwe.user)])
    await uwe.ask("GET", "/users/me", expect=401)


async def test_those_of_a_groups_members_end(api, uwe):
    group = await api.ask("POST", "/groups", json={"name": "g"}, expect=201)
    member = {"user": {"id": str(uwe.user)}, "group": {"id": group["id"]}}
    await api.ask("POST", "/group_memberships", json=member, expect=201)
    path = "/groups/terminate_sessions"
    await uwe.ask("POST", path, json={"group_ids": [group["id"]]}, expect=403)
    await api.ask("POST", path, json={"group_ids": [group["id"], "77"]}, expect=404)
    await api.ask("POST", path, json={"group_ids": []}, expect=400)
    await uwe.ask("GET", "/users/me")
    assert await api.ask("POST", path, json={"group_ids": [group["id"]]}, expect=202) == DONE
    await uwe.ask("GET", "/users/me", expect=401)
    await api.ask("GET", "/users/me")


async def test_the_public_client(client, sample):
    opened, credentials = sample

    def story():
        return client.session_termination.terminate_users_sessions([credentials.user_id], ["ben@example.com"])

    assert (await trio.to_thread.run_sync(story)).message
    assert opened.read("SELECT 1 FROM token WHERE account = ?", credentials.user_id) == []
