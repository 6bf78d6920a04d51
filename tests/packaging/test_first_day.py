"""A person's first day, from a fresh machine to the package's removal, as one story.

The machine has a desktop and a network with one address in it, at which another one serves over TLS, with an
authority of the house.  Ada logs in on the screen; what she does is done by the keys of her editor.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import Machine, Person
from tests.support.screen import Screen

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

CHECKOUT = Path(__file__).parents[2]
PERSON = CHECKOUT / "tests" / "support" / "browser_person.py"
LOGIN = "ada@example.com"
HOST = "files.test"
ADDRESS = "192.168.213.1"
PORT = 8443
URL = f"https://{HOST}:{PORT}"
# What a machine writes down of a package, and what a system keeps of its users and its time.
TRACES: tuple[str, ...] = (
    "/var/log/",
    "/var/lib/dpkg/",
    "/var/lib/apt/",
    "/var/cache/",
    "/var/lib/systemd/",
    "/etc/group",
)
TRACES += ("/etc/gshadow", "/etc/passwd", "/etc/shadow", "/etc/subuid", "/etc/subgid", "/home/ada")


def until(condition: Callable[[], object], what: str, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.2)


@dataclass
class Office:
    """Where the service runs, with a colleague of Ada's; a machine of its own as far as networks go."""

    process: subprocess.Popen[str]
    folder: Path
    run: Callable[..., subprocess.CompletedProcess[str]]

    def here(self, *command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        folders = {
            f"XDG_{one}_HOME": self.folder / one.lower() for one in ("CONFIG", "STATE", "DATA", "CACHE")
        }
        known = [f"{name}={value}" for name, value in folders.items()] + [f"PYTHONPATH={CHECKOUT}"]
        return self.run(
            "nsenter", "-t", self.process.pid, "-n", "env", "-C", "/", *known, *command, check=check
        )

    def cmsfs(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of the colleague, who asks the service."""
        return self.here(sys.executable, "-m", "cmsfs", *words, check=check)

    def text(self, path: str) -> str:
        return self.cmsfs("get", path, "-", check=False).stdout

    @property
    def credentials(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "service" / "credentials.json").read_text())
        return found

    def joined(self, machine: Machine) -> None:
        """Lay the cable to a machine."""
        pids = self.process.pid, machine.leader
        self.run(
            "ip", "link", "add", "office", "netns", pids[0], "type", "veth", "peer", "eth0", "netns", pids[1]
        )
        for pid, name, address in ((pids[0], "office", ADDRESS), (pids[1], "eth0", "192.168.213.2")):
            here = ("nsenter", "-t", pid, "-n", "ip")
            self.run(*here, "address", "add", f"{address}/24", "dev", name)
            self.run(*here, "link", "set", "lo", "up")
            self.run(*here, "link", "set", name, "up")


@pytest.fixture
def office(tmp_path: Path, run: Any, workstation: Machine) -> Iterator[Office]:
    """`cmsfs serve` over TLS, joined to the machine; the colleague is logged in as a server's program is."""
    for tool in ("ip", "openssl"):
        if not shutil.which(tool):
            pytest.skip(f"there is no {tool} here")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    ca = ("-CA", tmp_path / "house.pem", "-CAkey", tmp_path / "house.key")
    new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    run(*new, "-subj", "/CN=House", "-keyout", ca[3], "-out", ca[1])
    names = f"subjectAltName=DNS:{HOST},IP:{ADDRESS}"
    leaf = ("-addext", "basicConstraints=critical,CA:FALSE", "-addext", names)
    run(*new, *ca, "-subj", f"/CN={HOST}", *leaf, "-keyout", key, "-out", cert)
    serve = ("serve", "--data", tmp_path / "service", "--host", "0.0.0.0", "--port", PORT, "--json")
    command = [
        *("unshare", "--net", sys.executable, "-m", "cmsfs"),
        *serve,
        "--tls-cert",
        cert,
        "--tls-key",
        key,
    ]
    command += ["--public-url", URL]
    with (
        (tmp_path / "service.log").open("w") as log,
        subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        ) as process,
    ):
        try:
            assert process.stdout
            assert "".join(iter(process.stdout.readline, "}\n")), (tmp_path / "service.log").read_text()
            made = Office(process, tmp_path, run)
            made.joined(workstation)
            app = tmp_path / "app.json"
            app.write_text(json.dumps(made.credentials))
            url = f"https://{ADDRESS}:{PORT}"
            made.cmsfs("login", url, "--client-credentials", app, "--ca-file", ca[1])
            yield made
        finally:
            process.terminate()
            process.wait(20)


def files_of(machine: Machine) -> set[str]:
    """All that lies on its disk."""
    skipped = " -o ".join(f"-path /{one}" for one in ("proc", "sys", "dev", "run", "tmp", "srv"))
    return set(machine.sh(f"find / -xdev \\( {skipped} \\) -prune -o -print").stdout.splitlines())


def status(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(person.sh("cmsfs status --json").stdout)
    return found


def logged_in(screen: Screen, office: Office) -> None:
    """`cmsfs login`, whose browser is a program that does what Ada would."""
    machine, person = screen.person.machine, screen.person
    root = machine.root
    shutil.copyfile(PERSON, root / "srv" / "person.py")
    home = root / person.home.lstrip("/")
    app = {name: office.credentials[name] for name in ("client_id", "client_secret")}
    secrets = {"app.json": json.dumps(app), "password": office.credentials["passwords"][LOGIN]}
    for name, text in secrets.items():
        (home / name).write_text(text)
        os.chown(home / name, person.uid, person.uid)
        (home / name).chmod(0o600)
    browse = f"/usr/lib/cmsfs/bin/python3 /srv/person.py %s {LOGIN} {person.home}/password grant &"
    done = screen.x(
        f"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt BROWSER={shlex.quote(browse)} "
        f"cmsfs login {URL} --yes --app app.json"
    )
    assert f"Logged in to {HOST}:{PORT} as Ada Example" in done.stdout
    person.sh("rm app.json password")


def secrets_of(person: Person, office: Office) -> set[str]:
    kept = json.loads(person.sh("cat .local/state/cmsfs/default/token").stdout)
    found = {kept["refresh_token"], kept["access_token"], kept["client_secret"]}
    return found | set(office.credentials["passwords"].values())


def test_a_first_day(
    workstation: Machine,
    package: Path,
    office: Office,
    screen: Screen,
    tmp_path: Path,
    record_property: Any,
) -> None:
    ada, root = screen.person, workstation.root
    shutil.copyfile(tmp_path / "house.pem", root / "usr/local/share/ca-certificates/house.crt")
    workstation.sh(f"update-ca-certificates; echo {ADDRESS} {HOST} >> /etc/hosts")
    screen.log_in()
    before = files_of(workstation)

    began = time.monotonic()
    shutil.copyfile(package, root / "srv" / package.name)
    workstation.sh(f"apt-get -q -y --no-install-recommends install /srv/{package.name}")
    logged_in(screen, office)
    ada.sh("cmsfs mount --enable")
    assert "Welcome.md" in ada.sh("ls cmsfs").stdout
    record_property("seconds from the package to the first listed file", time.monotonic() - began)
    secrets = secrets_of(ada, office)

    # There again after a log-out, and nothing left meanwhile.
    ada.sh("printf 'Plan\\n' > cmsfs/plan.txt; cmsfs sync")
    screen.log_out()
    assert office.text("/plan.txt") == "Plan\n"
    screen.log_in()
    until(ada.is_mounted, "the drive did not come with the session")

    with screen.editor("cmsfs/plan.txt") as type_line:
        type_line("first from the desktop")
        ada.sh("cmsfs sync")
        assert office.text("/plan.txt") == "Plan\nfirst from the desktop\n"

    # The colleague writes, Ada sees it.
    (tmp_path / "news.txt").write_text("news\n")
    office.cmsfs("put", tmp_path / "news.txt", "/")
    until(lambda: ada.sh("cat cmsfs/news.txt", check=False).stdout == "news\n", "the news did not come")

    # No cable: everything goes on but the service.
    cable = ("nsenter", "-t", workstation.leader, "-n", "ip", "link", "set", "eth0")
    office.run(*cable, "down")
    with screen.editor("cmsfs/plan.txt") as type_line:
        type_line("second without a network")
    ada.sh("cd cmsfs; mkdir on-the-train; cp news.txt on-the-train/; mv news.txt old-news.txt")
    until(lambda: status(ada)["health"]["state"] == "offline", "nobody noticed the missing network", 200)
    until(lambda: ada.unit("StatusText").startswith("offline, "), ada.unit("StatusText"))
    assert status(ada)["queue"]["waiting"] > 0
    office.run(*cable, "up")
    until(lambda: status(ada)["health"]["state"] == "online", "the network's return was not noticed", 200)
    assert ada.sh("cmsfs sync --timeout 120").stdout == "Everything is uploaded.\n"
    assert office.text("/plan.txt").endswith("second without a network\n")
    assert office.text("/on-the-train/news.txt") == office.text("/old-news.txt") == "news\n"
    assert office.text("/news.txt") == ""
    assert ada.sh("cmsfs conflicts").stdout == "Nothing needs your attention.\n"

    # Others of the machine, and the secrets.
    workstation.sh("useradd -m -s /bin/bash bob")
    for place in ("cmsfs", ".local/state/cmsfs", ".cache/cmsfs", ".config/cmsfs"):
        assert workstation.sh(f"runuser -u bob -- ls {ada.home}/{place}", check=False).returncode != 0
    assert workstation.sh(f"ls {ada.home}/cmsfs", check=False).returncode != 0
    ada.sh("cmsfs doctor --bundle report.zip", check=False)
    report = ada.sh(
        'python3 -c \'import zipfile; z = zipfile.ZipFile("report.zip"); '
        "[print(z.read(n).decode()) for n in z.namelist()]'"
    ).stdout
    assert "cmsfs" in report
    everywhere = {
        "report": report,
        "journal": workstation.sh("journalctl --no-pager -o verbose").stdout,
        "processes": workstation.sh(
            "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'", check=False
        ).stdout,
        "status": ada.sh("cmsfs status --json; cmsfs status; systemctl --user status cmsfs@default").stdout,
        "settings": ada.sh("cmsfs config show --all; cat .config/cmsfs/config.toml").stdout,
        "service": (tmp_path / "service.log").read_text(),
    }
    secrets |= secrets_of(ada, office)
    for where, text in everywhere.items():
        assert not [secret for secret in secrets if secret in text], where

    # Away with it: what is left is Ada's.
    workstation.sh("apt-get -q -y --purge remove cmsfs")
    assert not ada.is_mounted()
    left = files_of(workstation) - before
    assert [one for one in left if not one.startswith(TRACES) and not one.startswith("/home/bob")] == []
    running = workstation.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", check=False).stdout
    assert "cmsfs" not in running
    assert ada.sh("ls .config/cmsfs/config.toml .local/state/cmsfs/default/replica.db").stdout
