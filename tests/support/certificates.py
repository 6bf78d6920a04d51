"""Server certificates for tests."""

import subprocess
from pathlib import Path


def self_signed(folder: Path, *names: str) -> tuple[Path, Path]:
    """Create a self-signed certificate for 127.0.0.1 and these names; return it and its key."""
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(keyfile), "-out", str(certfile), "-days", "2", "-subj", "/CN=cmsfs test"]
    command += ["-addext", ",".join(["subjectAltName=IP:127.0.0.1", *(f"DNS:{name}" for name in names)])]
    subprocess.run(command, check=True, capture_output=True)
    return certfile, keyfile
