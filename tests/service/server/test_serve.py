"""The service on a socket."""

import json
import random
import socket
import ssl
import subprocess

import httpx
import pytest
import trio
import trio.testing

from cmsfs import errors
from cmsfs.service.server import app, serve


@pytest.fixture
async def url(service, nursery):
    return await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))


async def test_it_answers_over_http(api, url):
    headers = {"authorization": api.http.headers["authorization"]}
    async with httpx.AsyncClient(headers=headers, follow_redirects=True) as client:
        assert (await client.get(f"{url}/2.0/users/me")).json()["id"] == str(api.user)
        body, more = api.form({"name": "large", "parent": {"id": "0"}}, b"x" * 5_000_000)
        answer = await client.post(f"{url}/api/2.0/files/content", content=body, headers=more)
        assert answer.status_code == 201
        wire_id = answer.json()["entries"][0]["id"]
        answer = await client.get(f"{url}/2.0/files/{wire_id}/content", headers={"range": "bytes=4999990-"})
        assert (answer.status_code, answer.content) == (206, b"x" * 10)
        assert len((await client.get(f"{url}/2.0/files/{wire_id}/content")).content) == 5_000_000
        question = {"name": "LARGE", "parent": {"id": "0"}}
        answer = await client.request("OPTIONS", f"{url}/2.0/files/content/", json=question)
        assert answer.json()["context_info"]["conflicts"]["id"] == wire_id
        answer = await client.request("OPTIONS", f"{url}/2.0/files/content", json={})
        assert answer.json()["upload_url"] == f"{url}/api/2.0/files/content"


async def test_early_refusal_reaches_sending_client(api, url):
    async def endless():
        body, _ = api.form({"name": "a/b", "parent": {"id": "0"}}, b"")
        yield body.partition(b"\r\n--edge--")[0]
        for _ in range(200):
            yield b"x" * 65536

    headers = {"authorization": api.http.headers["authorization"]}
    headers["content-type"] = "multipart/form-data; boundary=edge"
    async with httpx.AsyncClient() as client:
        for _ in range(3):
            answer = await client.post(f"{url}/api/2.0/files/content", content=endless(), headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "item_name_invalid")
            answer = await client.post(f"{url}/api/2.0/files/content", content=endless())
            assert (answer.status_code, answer.content) == (401, b"")


async def test_a_download_that_is_broken_off_ends(api, url):
    file = await api.upload("large", b"x" * 8_000_000)
    request = (
        f"GET /2.0/files/{file['id']}/content HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {api.http.headers['authorization']}\r\nPrefer: return=representation\r\n\r\n"
    )
    for _ in range(3):
        async with await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2])) as stream:
            await stream.send_all(request.encode())
            assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 200")
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/2.0/users/me")).status_code == 401


async def test_a_port_in_use(service):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.UserError, match=f"^Port {port} of 127.0.0.1 is in use"):
            await serve.serve(service, port=port)


async def test_it_stops_when_it_is_cancelled(service):
    async with trio.open_nursery() as nursery:
        url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{url}/2.0/users/me")).status_code == 401
            nursery.cancel_scope.cancel()
    with pytest.raises(OSError):
        await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))


async def test_shutdown_finishes_running_upload(api, service):
    stop = trio.Event()
    body, headers = api.form({"name": "large", "parent": {"id": "0"}}, b"x" * 300_000)
    headers |= {"authorization": api.http.headers["authorization"], "content-length": str(len(body))}
    half = trio.Event()

    async def slow():
        yield body[:150_000]
        half.set()
        await stop.wait()
        with pytest.raises(OSError):
            # The listener goes at once; what was begun goes on.
            while True:
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        yield body[150_000:]

    async def upload():
        async with httpx.AsyncClient() as client:
            answers.append(await client.post(f"{url}/api/2.0/files/content", content=slow(), headers=headers))

    answers: list[httpx.Response] = []
    async with trio.open_nursery() as nursery:
        url = await nursery.start(
            lambda task_status: serve.serve(service, port=0, stop=stop, task_status=task_status)
        )
        port = int(url.rpartition(":")[2])
        nursery.start_soon(upload)
        await half.wait()
        stop.set()
    assert [answer.status_code for answer in answers] == [201]
    assert len((await api.search("large"))["entries"]) == 1


async def test_unfinished_requests_are_cut_off(api, service, monkeypatch):
    monkeypatch.setattr(serve, "STOP_SECONDS", 0.2)
    stop = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(
                lambda task_status: serve.serve(service, port=0, stop=stop, task_status=task_status)
            )
            stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
            await stream.send_all(
                b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
            )
            assert b"100" in await stream.receive_some(100)
            stop.set()
        await stream.aclose()


async def test_long_poll_does_not_delay_shutdown(api, service):
    stop = trio.Event()
    headers = {"authorization": api.http.headers["authorization"]}

    async def poll():
        async with httpx.AsyncClient(timeout=None) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"{url}/2.0/events/wait", headers=headers)

    with trio.fail_after(serve.STOP_SECONDS / 2):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(
                lambda task_status: serve.serve(service, port=0, stop=stop, task_status=task_status)
            )
            nursery.start_soon(poll)
            await trio.testing.wait_all_tasks_blocked(0.05)
            stop.set()


async def test_behind_a_proxy_addresses_are_the_public_ones(api, service, nursery):
    public = "https://files.example.com:8443"
    url = await nursery.start(
        lambda task_status: serve.serve(service, port=0, public_url=public, task_status=task_status)
    )
    headers = {"authorization": api.http.headers["authorization"]}
    async with httpx.AsyncClient(headers=headers) as client:
        found = (await client.request("OPTIONS", f"{url}/2.0/files/content", json={})).json()
        assert found["upload_url"] == f"{public}/api/2.0/files/content"
        found = (await client.request("OPTIONS", f"{url}/2.0/events")).json()
        assert found["entries"][0]["url"].startswith(f"{public}/2.0/events")
        file = await api.upload("a.txt", b"x")
        body = {"shared_link": {"access": "open"}}
        found = (await client.put(f"{url}/2.0/files/{file['id']}", json=body)).json()
        assert found["shared_link"]["url"].startswith(f"{public}/s/")
    ours = app.Service(service, url, public_url=public)
    assert f"{public}/oauth2/token" in ours.token_urls
    assert f"{url}/oauth2/token" in ours.token_urls


@pytest.fixture
def certificate(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


async def test_tls_is_1_2_or_later(service, certificate, nursery):
    cert, key = certificate
    url = await nursery.start(
        lambda task_status: serve.serve(service, port=0, certfile=cert, keyfile=key, task_status=task_status)
    )
    assert url.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cafile=str(cert))
    async with httpx.AsyncClient(verify=trusted) as client:
        assert (await client.get(f"{url}/2.0/users/me")).status_code == 401
    old = ssl.create_default_context(cafile=str(cert))
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with httpx.AsyncClient(verify=old) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/2.0/users/me")


async def test_large_contents_go_over_tls_whole(api, service, certificate, nursery):
    cert, key = certificate
    url = await nursery.start(
        lambda task_status: serve.serve(service, port=0, certfile=cert, keyfile=key, task_status=task_status)
    )
    data = random.Random(3).randbytes(3_000_001)
    headers = {"authorization": api.http.headers["authorization"]}
    trusted = ssl.create_default_context(cafile=str(cert))
    async with httpx.AsyncClient(verify=trusted, headers=headers, follow_redirects=True) as client:

        async def exchange(name: str) -> None:
            body, more = api.form({"name": name, "parent": {"id": "0"}}, data)
            answer = await client.post(f"{url}/api/2.0/files/content", content=body, headers=more)
            wire_id = answer.json()["entries"][0]["id"]
            assert (await client.get(f"{url}/2.0/files/{wire_id}/content")).content == data

        async with trio.open_nursery() as exchanges:
            for name in ("a", "b", "c"):
                exchanges.start_soon(exchange, name)


async def test_a_certificate_that_is_none(service, tmp_path):
    cert = tmp_path / "cert.pem"
    cert.write_text("nothing")
    for path in (cert, tmp_path / "missing.pem"):
        with pytest.raises(errors.UserError, match="cannot be used"):
            await serve.serve(service, port=0, certfile=path)


async def test_thousands_of_requests_go_over_one_connection(api, url):
    headers = {"authorization": api.http.headers["authorization"]}
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(headers=headers, limits=limits) as client:
        for _ in range(1100):
            answer = await client.get(f"{url}/2.0/folders/trash/items")
            assert json.loads(answer.content)["entries"] == []
            assert answer.headers.get("connection") != "close"
