"""The public API's own Python client gets its tokens, unmodified, from the service on a socket."""

import json

import httpx
import pytest
import trio
from box_sdk_gen import (
    BaseUrls,
    BoxAPIError,
    BoxCCGAuth,
    BoxClient,
    BoxDeveloperTokenAuth,
    BoxJWTAuth,
    BoxOAuth,
    BoxSDKError,
    CCGConfig,
    JWTConfig,
    OAuthConfig,
)
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cmsfs.service.oauth import clients, codes
from cmsfs.service.server import serve
from tests.service.conftest import SECRET


@pytest.fixture
async def url(api, service, nursery):
    return await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))


@pytest.fixture
def client_of(url):
    urls = BaseUrls(base_url=url, upload_url=f"{url}/api", oauth_2_url=f"{url}/api/oauth2")
    return lambda auth: BoxClient(auth=auth).with_custom_base_urls(urls)


@pytest.fixture
def enterprise(service):
    return str(service.read("SELECT id FROM enterprise")[0]["id"])


async def test_client_credentials_for_a_user_and_for_the_enterprise(client_of, api, enterprise):
    def story():
        config = CCGConfig(client_id="tests", client_secret=SECRET, enterprise_id=enterprise)
        auth = BoxCCGAuth(config=config)
        assert client_of(auth).users.get_user_me().id == str(api.user)
        assert client_of(auth.with_user_subject(str(api.user))).users.get_user_me().id == str(api.user)

    await trio.to_thread.run_sync(story)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512"])
async def test_jwt_assertion_token_works(client_of, api, service, enterprise, algorithm):
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"pass"),
    ).decode()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    await service.write(lambda conn: clients.add_key(conn, "tests", "k1", public.decode()))
    file, beside = await api.upload("a.txt", b"text"), await api.upload("b.txt", b"text")

    def story():
        config = JWTConfig.from_config_json_string(
            json.dumps(
                {
                    "boxAppSettings": {
                        "clientID": "tests",
                        "clientSecret": SECRET,
                        "appAuth": {"publicKeyID": "k1", "privateKey": private, "passphrase": "pass"},
                    },
                    "enterpriseID": enterprise,
                }
            )
        )
        config.algorithm = algorithm
        auth = BoxJWTAuth(config=config)
        client = client_of(auth)
        assert client.users.get_user_me().id == str(api.user)
        narrow = auth.downscope_token(
            ["item_download", "item_rename"],
            resource=f"https://api.box.com/2.0/files/{file['id']}",
            network_session=client.network_session,
        )
        assert narrow.restricted_to[0].object.id == file["id"]
        assert {one.scope.value for one in narrow.restricted_to} == {"item_download", "item_rename"}
        restricted = client_of(BoxDeveloperTokenAuth(token=narrow.access_token))
        assert restricted.downloads.download_file(file["id"]).read() == b"text"
        assert restricted.files.update_file_by_id(file["id"], name="c.txt").name == "c.txt"
        for refused, status in (
            (lambda: restricted.files.delete_file_by_id(file["id"]), 403),
            (lambda: restricted.downloads.download_file(beside["id"]), 404),
        ):
            with pytest.raises(BoxAPIError) as raised:
                refused()
            assert raised.value.response_info.status_code == status
        auth.revoke_token(network_session=client.network_session)
        with pytest.raises(BoxSDKError, match="expired"):
            client_of(BoxDeveloperTokenAuth(token=narrow.access_token)).users.get_user_me()

    await trio.to_thread.run_sync(story)


async def test_a_code_and_refreshing(client_of, api, service):
    code = await service.write(
        lambda conn: codes.make(
            *(conn, "tests", api.user),
            redirect_uri="http://127.0.0.1/callback",
            granted=None,
            challenge=None,
            now=service.now(),
        )
    )

    def story():
        auth = BoxOAuth(config=OAuthConfig(client_id="tests", client_secret=SECRET))
        client = client_of(auth)
        first = auth.get_tokens_authorization_code_grant(code, network_session=client.network_session)
        assert client.users.get_user_me().id == str(api.user)
        second = auth.refresh_token(network_session=client.network_session)
        assert second.refresh_token != first.refresh_token
        assert client.users.get_user_me().id == str(api.user)

    await trio.to_thread.run_sync(story)


async def test_the_page_is_served_too(url):
    async with httpx.AsyncClient() as client:
        for path in ("/api/oauth2/authorize", "/oauth2/authorize"):
            page = await client.get(url + path)
            assert page.status_code == 400
            assert "client_id" in page.text
