"""An enterprise from a file: the example as a whole, and each mistake as one sentence."""

import subprocess
from importlib import resources

import httpx
import pytest

from cmsfs import errors
from cmsfs.service.oauth import passwords
from cmsfs.service.provisioning import provisioning
from cmsfs.service.server import app
from cmsfs.service.storage import store

EXAMPLE = resources.files("cmsfs.service") / "enterprise.example.toml"

LEAST = """
[enterprise]
name = "Small"
[[users]]
login = "ann@example.com"
name = "Ann"
role = "admin"
"""

TABLES = (
    *("enterprise", "account", "password", "app", "app_key", "item", "metadata_template"),
    *(
        "legal_hold_policy",
        "legal_hold_assignment",
        "retention_policy",
        "retention_assignment",
        "exemption",
        "collaboration",
    ),
    *("user_group", "membership", "signature_key", "storage_policy"),
)


@pytest.fixture(scope="module")
def public_key(tmp_path_factory):
    """What OpenSSL makes of a key."""
    key = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    done = subprocess.run(["openssl", "rsa", "-in", key, "-pubout"], check=True, capture_output=True)
    return done.stdout


@pytest.fixture
def file(tmp_path, monkeypatch, public_key):
    """`file(text)`: a file beside the example's secrets."""
    (tmp_path / "ann.password").write_text("word of ann\n")
    (tmp_path / "backup.secret").write_text("secret of the backup")
    (tmp_path / "backup.pem").write_bytes(public_key)
    monkeypatch.setenv("BEN_PASSWORD", "word of ben")

    def write(text):
        path = tmp_path / "enterprise.toml"
        path.write_text(text, encoding="utf-8")
        return provisioning.load(path)

    return write


def everything(opened):
    return {name: [tuple(row) for row in opened.read(f"SELECT * FROM {name}")] for name in TABLES}


async def test_the_example_is_made_and_made_once(root, file):
    wish = file(EXAMPLE.read_text(encoding="utf-8"))
    async with store.open_store(root) as opened:
        assert await provisioning.ensure(opened, wish) > 15
        made = everything(opened)
        assert {name: len(rows) for name, rows in made.items() if name != "item"} == {
            "enterprise": 1,
            "account": 4,
            "password": 2,
            "app": 2,
            "app_key": 1,
            "metadata_template": 3,
            "legal_hold_policy": 1,
            "legal_hold_assignment": 2,
            "retention_policy": 1,
            "retention_assignment": 2,
            "exemption": 1,
            "collaboration": 2,
            "user_group": 1,
            "signature_key": 1,
            "membership": 1,
            "storage_policy": 1,
        }
        assert await passwords.check(opened, "ann@ferries.example.com", "word of ann")
        assert await passwords.check(opened, "ben@ferries.example.com", "word of ben")
        made = everything(opened)
        assert await provisioning.ensure(opened, wish) == 0
        assert everything(opened) == made
    async with store.open_store(root) as opened:
        assert await provisioning.ensure(opened, wish) == 0
        assert everything(opened) == made


async def test_provisioned_app_finds_its_items(root, file):
    wish = file(EXAMPLE.read_text(encoding="utf-8"))
    async with store.open_store(root) as opened:
        await provisioning.ensure(opened, wish)
        ann = opened.read("SELECT id FROM account WHERE login LIKE 'ann%'")[0]["id"]
        form = {
            "grant_type": "client_credentials",
            "client_id": "nightly-backup",
            "client_secret": "secret of the backup",
            "box_subject_type": "user",
            "box_subject_id": str(ann),
        }
        transport = httpx.ASGITransport(app.build(opened))
        async with httpx.AsyncClient(transport=transport, base_url="http://x/2.0") as client:
            token = (await client.post("http://x/oauth2/token", data=form)).json()["access_token"]
            client.headers["authorization"] = f"Bearer {token}"
            found = (await client.get("/search?query=bridge&type=folder")).json()["entries"]
            assert [one["name"] for one in found] == ["Harbour Bridge"]
            (crew,) = (await client.get("/groups")).json()["entries"]
            (member,) = (await client.get(f"/groups/{crew['id']}/memberships")).json()["entries"]
            assert (crew["name"], member["user"]["name"]) == ("Deck crew", "Ben Boatswain")
            (shared,) = (await client.get(f"/groups/{crew['id']}/collaborations")).json()["entries"]
            assert (shared["item"]["name"], shared["role"]) == ("Harbour Bridge", "uploader")
            hold = (await client.get("/legal_hold_policies")).json()["entries"][0]
            assert hold["policy_name"] == "Collision at the quay"
            template = (await client.get("/metadata_templates/enterprise/voyage/schema")).json()
            assert [one["key"] for one in template["fields"]] == ["ship", "sailed", "passengers", "remark"]
            assert [one["key"] for one in template["fields"][0]["options"]] == ["Gull", "Tern"]


async def test_reprovisioning_adds_what_is_new(root, file):
    text = EXAMPLE.read_text(encoding="utf-8")
    async with store.open_store(root) as opened:
        await provisioning.ensure(opened, file(text))
        await opened.write(
            lambda conn: conn.execute("UPDATE account SET name = 'Ann Other' WHERE role = 'admin'")
        )
        more = text.replace('/in"]', '/in", "https://new.example.com/in"]')
        more = more.replace('path = "Logs"\n', 'path = "Logs/2026"\n')
        more = more.replace(
            '{ type = "metadata_template", key', '{ type = "enterprise" }, { type = "metadata_template", key'
        )
        more += '\n[[users]]\nlogin = "cleo@ferries.example.com"\nname = "Cleo"\n'
        assert await provisioning.ensure(opened, file(more)) == 4
        names = [
            row["name"]
            for row in opened.read("SELECT name FROM account WHERE login NOT LIKE '%.invalid' ORDER BY id")
        ]
        assert names == ["Ann Other", "Ben Boatswain", "Cleo"]
        assert await provisioning.ensure(opened, file(LEAST.replace("Small", "Northern Ferries"))) == 1
        assert len(opened.read("SELECT * FROM account WHERE login NOT LIKE '%.invalid'")) == 4


async def test_a_file_that_cannot_be_done_makes_nothing(root, file):
    async with store.open_store(root) as opened:
        before = everything(opened)
        wish = file(LEAST + '[[exemptions]]\nlogin = "nobody@example.com"\n')
        with pytest.raises(
            errors.ConfigError, match=r"exemptions\[1\].login: the enterprise has no user 'nobody"
        ):
            await provisioning.ensure(opened, wish)
        assert everything(opened) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[enterprise", "is not TOML"),
        ('[enterprise]\nname = "x"\n', "users: field required"),
        ('[enterprise]\nname = "x"\nusers = []\n', "enterprise.users is not known"),
        (LEAST.replace('role = "admin"', ""), "one of the users must have the role admin"),
        (LEAST.replace('name = "Ann"', 'nmae = "Ann"'), r"users\[1\].nmae is not known; did you mean name\?"),
        (LEAST + '[[user]]\nlogin = "b@example.com"', r"user is not known; did you mean users\?"),
        (LEAST.replace("ann@", "ann"), r"users\[1\].login: string should match"),
        (LEAST + "password = { fil = 'x' }", r"users\[1\].password.fil is not known; did you mean file\?"),
        (LEAST + "password = {}", r"users\[1\].password: must have one of value, file and env"),
        (
            LEAST
            + '[[apps]]\nclient_id = "a"\nclient_secret = "b"\nname = "c"\ngrants = ["client_credential"]',
            r"apps\[1\].grants\[1\]: 'client_credential' is no grant; did you mean client_credentials\?",
        ),
        (LEAST + '[[folders]]\nowner = "x"\npath = "/a"', r"folders\[1\].path: '/a' is no path of folders"),
        (
            LEAST + '[[folders]]\nowner = "x"\npath = "a"\ncollaborators = [{ login = "x", role = "editr" }]',
            r"folders\[1\].collaborators\[1\].role: 'editr' is no role; did you mean editor\?",
        ),
        (
            LEAST + '[[folders]]\nowner = "x"\npath = "a"\ncollaborators = [{ role = "editor" }]',
            r"folders\[1\].collaborators\[1\]: must have one of login and group",
        ),
        (
            LEAST + '[[legal_holds]]\nname = "x"\nassignments = [{ type = "folder", path = "a" }]',
            r"legal_holds\[1\].assignments\[1\]: of type folder needs owner",
        ),
    ],
)
def test_enterprise_file_error_names_the_key(file, text, said):
    with pytest.raises(errors.ConfigError, match=rf"enterprise.toml:? .*{said}(.*[.?])?$") as caught:
        file(text)
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("password = { file = 'missing' }", r"users\[1\].password: missing cannot be read: No such file"),
        ("password = { env = 'NOT_SET_HERE' }", r"users\[1\].password: the variable NOT_SET_HERE is not set"),
        ('password = ""', r"users\[1\].password: the secret is empty"),
        (
            '[[apps]]\nclient_id = "a"\nclient_secret = "b"\nname = "c"\nservice_user = "d"',
            r"apps\[1\].service_user: the enterprise has no user 'd'",
        ),
        (
            '[[apps]]\nclient_id = "a"\nclient_secret = "b"\nname = "c"\n'
            'public_keys = [{ kid = "k", file = "ann.password" }]',
            r"apps\[1\].public_keys: k: The public key is not in PEM format",
        ),
        (
            '[[legal_holds]]\nname = "x"\nassignments = [{ type = "enterprise" }]',
            r"legal_holds\[1\].assignments\[1\].type: a hold is on a folder or on a user",
        ),
        (
            '[[retention_policies]]\nname = "x"\ndays = 1\nassignments = [{ type = "user", login = "x" }]',
            r"retention_policies\[1\].assignments\[1\].type: retention is of a folder",
        ),
        (
            '[[retention_policies]]\nname = "x"\ndays = 1\n'
            'assignments = [{ type = "folder", owner = "ann@example.com", path = "No/Where" }]',
            r"assignments\[1\].path: ann@example.com has no folder 'No/Where'",
        ),
        (
            '[[retention_policies]]\nname = "x"\ndays = 1\n'
            'assignments = [{ type = "metadata_template", key = "none" }]',
            r"assignments\[1\].key: the enterprise has no template 'none'",
        ),
    ],
)
async def test_errors_in_the_data_are_reported(root, file, text, said):
    async with store.open_store(root) as opened:
        with pytest.raises(errors.ConfigError, match=said):
            await provisioning.ensure(opened, file(LEAST + text))
        assert opened.read("SELECT * FROM enterprise") == []


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(errors.ConfigError, match="cannot be read: No such file"):
        provisioning.load(tmp_path / "missing.toml")


async def test_who_may_search_everything(root, file):
    more = '[[users]]\nlogin = "{0}@example.com"\nname = "{0}"\n{1}\n'
    text = LEAST + more.format("bea", "enterprise_content = true") + more.format("cid", "")
    async with store.open_store(root) as opened:
        await provisioning.ensure(opened, file(text))
        sql = "SELECT name, enterprise_content FROM account WHERE login NOT LIKE '%.invalid'"
        assert {row["name"]: row["enterprise_content"] for row in opened.read(sql)} == {
            "Ann": 1,
            "bea": 1,
            "cid": 0,
        }
