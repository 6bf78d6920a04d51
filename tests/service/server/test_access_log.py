"""One line for each request, and no secret in any of them."""

import logging
import re

import httpx
import pytest
import trio
import trio.testing

from cmsfs.service.server import access_log, app, serve

LINE = re.compile(
    r"method=(\S+) path=(\S+) status=(\d+) ms=[\d.]+ in=(\d+) out=(\d+) user=(\S+) request=([0-9a-f]{16})"
)


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())

    def parsed(self):
        return [LINE.fullmatch(text).groups() for text in self.texts]


@pytest.fixture
def lines():
    handler = Lines()
    access_log.log.addHandler(handler)
    access_log.log.setLevel(logging.INFO)
    yield handler
    access_log.log.removeHandler(handler)
    access_log.log.setLevel(logging.NOTSET)


@pytest.fixture
async def client(service, api):
    """The application behind its access log, for a caller without a token of its own."""
    transport = httpx.ASGITransport(access_log.AccessLog(app.build(service, "http://service.test")))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as found:
        yield found


async def test_access_log_line(api, client, lines):
    headers = {"authorization": api.http.headers["authorization"]}
    file = await api.upload("secretname", b"x" * 1000)
    answer = await client.get(f"/2.0/files/{file['id']}/content", headers=headers)
    await client.get(answer.headers["location"], headers=headers)
    body, more = api.form({"name": "b", "parent": {"id": "0"}}, b"y" * 500)
    await client.post("/api/2.0/files/content", content=body, headers=headers | more)
    await client.get("/2.0/users/me")
    user = str(api.user)
    found = [line[:3] + line[5:6] for line in lines.parsed()]
    assert found == [
        ("GET", "/2.0/files/{id}/content", "302", user),
        ("GET", "/d/{word}/download", "200", "-"),
        ("POST", "/api/2.0/files/content", "201", user),
        ("GET", "/2.0/users/me", "401", "-"),
    ]
    assert lines.parsed()[1][4] == "1000"
    assert int(lines.parsed()[2][3]) == len(body)


async def test_access_log_names_actor_and_as_user(api, uwe, client, lines):
    headers = {"authorization": api.http.headers["authorization"]}
    await client.get("/2.0/users/me", headers=headers | {"as-user": str(uwe.user)})
    assert f" user={uwe.user} by={api.user} request=" in lines.texts[-1]
    await client.get("/2.0/users/me", headers=headers | {"as-user": str(api.user)})
    assert f" user={api.user} request=" in lines.texts[-1]


async def test_an_error_body_names_the_same_request(api, client, lines):
    headers = {"authorization": api.http.headers["authorization"]}
    for path in ("/2.0/files/1", "/nowhere", "/2.0/search"):
        answer = await client.get(path, headers=headers)
        assert answer.json()["request_id"] == lines.parsed()[-1][6]
    assert [line[1] for line in lines.parsed()] == ["/2.0/files/{id}", "(none)", "/2.0/search"]
    assert len({line[6] for line in lines.parsed()}) == 3


async def test_request_ids_of_a_proxy_are_kept(service, api, client, lines):
    transport = httpx.ASGITransport(
        access_log.AccessLog(app.build(service, "http://service.test"), proxied=True)
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as behind:
        for given, kept in (
            ("0f3c9a7e-edge.1", True),
            ("short", False),
            ("a b\tc=d" * 2, False),
            ("x" * 65, False),
        ):
            answer = await behind.get("/nowhere", headers={"x-request-id": given})
            assert (answer.headers["x-request-id"] == given) is kept
            assert answer.json()["request_id"] == answer.headers["x-request-id"]
            assert f"request={answer.headers['x-request-id']}" in lines.texts[-1]
    # Who comes by no proxy names nothing in our log.
    answer = await client.get("/nowhere", headers={"x-request-id": "0f3c9a7e-edge.1"})
    assert lines.texts[-1].endswith(f" request={answer.headers['x-request-id']}")
    assert answer.headers["x-request-id"] != "0f3c9a7e-edge.1"


async def test_no_secret_is_ever_in_a_line(api, client, lines, service):
    secret = "5ecre7word"
    token = api.http.headers["authorization"].removeprefix("Bearer ")
    file = await api.upload("a.txt", b"x")
    body = {"shared_link": {"access": "open", "password": secret}}
    link = (await api.ask("PUT", f"/files/{file['id']}", json=body))["shared_link"]["url"]
    word = link.rpartition("/")[2]
    tries = [
        client.get(f"/2.0/users/me?access_token={token}&code={secret}&password={secret}"),
        client.get(f"/{secret}/{token}"),
        client.get(f"/2.0/files/{secret}", headers={"authorization": f"Bearer {token}"}),
        client.get(f"/2.0/search?query={secret}", headers={"authorization": f"Bearer {token}"}),
        client.get(f"/shared/static/{word}"),
        client.get(
            "/2.0/shared_items", headers={"boxapi": f"shared_link={link}&shared_link_password={secret}"}
        ),
        client.get(f"/oauth2/authorize?client_id=tests&response_type=code&state={secret}"),
        client.post("/oauth2/token", data={"grant_type": "client_credentials", "client_secret": secret}),
        client.post("/oauth2/revoke", data={"token": token, "client_secret": secret}),
        client.request("X" + secret.upper(), "/2.0/users/me"),
    ]
    for one in tries:
        await one
    assert len(lines.texts) == len(tries)
    assert len(lines.parsed()) == len(tries)
    for text in lines.texts:
        for hidden in (secret, secret.upper(), token, word, file["id"], "a.txt"):
            assert hidden not in text


async def test_disconnected_client_is_logged(service, lines, nursery):
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    async with await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2])) as stream:
        await stream.send_all(b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")
    with trio.fail_after(10):
        while not lines.texts:
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert lines.parsed()[0][:4] == ("POST", "/oauth2/token", "0", "2")
