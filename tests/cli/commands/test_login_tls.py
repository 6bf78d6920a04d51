"""login over TLS: who the service says it is must be vouched for before anything is sent."""

import subprocess
from pathlib import Path

import pytest

from cmsfs import config


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-subj", "/CN=files", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


@pytest.fixture
def server(serving, certificate):
    return serving("--tls-cert", certificate[0], "--tls-key", certificate[1])


def test_only_an_authority_that_was_named_is_believed(cmsfs, server, app, person, certificate, monkeypatch):
    assert server.url.startswith("https://")
    done = cmsfs("login", server.url, "--client-credentials", app)
    assert done.returncode == 1
    assert "certificate is not accepted" in done.stderr
    assert not config.config_file().exists()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))  # whom the browser believes
    done = cmsfs("login", server.url, "--yes", "--app", app, "--ca-file", certificate[0])
    assert done.returncode == 0, done.stderr
    monkeypatch.delenv("SSL_CERT_FILE")
    assert config.load().ca_file == certificate[0]
    assert cmsfs("whoami").stdout.startswith("Ben Sample <ben@example.com>")
    assert cmsfs("logout").stdout == "Logged out.\n"
