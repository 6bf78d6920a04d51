"""What a command loads before it does anything: whoever types it waits for that."""

import json
import subprocess
import sys

import pytest

from cmsfs import config

_LOOK = """
import json, sys
from cmsfs.cli import main
try:
    main.main()
except SystemExit:
    pass
print(json.dumps([name for name, module in sys.modules.items() if module]))
"""

_NEVER = {"daemon", "pyfuse3", "cmsfs.service", "starlette", "jinja2", "PIL", "lxml", "cryptography"}
_NEVER |= {"rich", "pygments", "h2"}
_NETWORK = {"httpx", "httpcore", "h11", "trio", "anyio", "cmsfs.client", "cmsfs.auth", "cmsfs.models.content"}
_SETTINGS = {"pydantic", "cmsfs.config", "cmsfs.ipc"}
# Capabilities of the client that these commands have no use for.
_OTHERS = {
    f"cmsfs.client.content.{name}" for name in ("events", "locks", "uploads", "upload_sessions", "versions")
}
_OTHERS |= {f"cmsfs.client.enterprise.{name}" for name in ("exemptions", "legal_holds", "retention")}
_LOGIN = {"tomlkit", "webbrowser", "http.server"}


@pytest.mark.parametrize(
    ("command", "without", "most"),
    [
        (["--version"], _NEVER | _NETWORK | _SETTINGS | _LOGIN, 190),
        (["--help"], _NEVER | _NETWORK | _SETTINGS | _LOGIN, 190),
        (["status"], _NEVER | _NETWORK | _LOGIN, 320),
        (["pins"], _NEVER | _NETWORK | _LOGIN, 320),
        (["whoami"], _NEVER | _LOGIN | _OTHERS, 590),
        (["search", "budget"], _NEVER | _LOGIN | _OTHERS, 620),
        (["share", "/x"], _NEVER | _LOGIN | _OTHERS, 620),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_command_loads_what_it_uses(command: list[str], without: set[str], most: int) -> None:
    file = config.config_file()
    file.parent.mkdir()
    nobody = "http://127.0.0.1:9"
    addresses = "".join(f'{key} = "{nobody}"\n' for key in ("base_url", "upload_url", "auth_url"))
    secret = file.with_name("secret")
    secret.write_text("secret")
    file.write_text(
        f'profile = "server"\n{addresses}client_id = "x"\nsubject_id = "1"\nclient_secret_file = "{secret}"\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *command], capture_output=True, text=True, check=False
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "Traceback" not in done.stderr
    assert [name for name in loaded for one in without if name == one or name.startswith(f"{one}.")] == []
    assert len(loaded) <= most, len(loaded)
