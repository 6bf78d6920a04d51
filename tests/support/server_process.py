"""`cmsfs serve` in its own process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STOP_SECONDS = 20.0


class ServerProcess:
    """The embedded service at `data`, served on a free port; a restart keeps the port."""

    def __init__(
        self,
        data: Path,
        *options: str | Path,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.port = 0
        self.ready_info: dict[str, Any] = {}  # the JSON it printed when ready
        self._options = options
        self._log = log
        self._env = env
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> "ServerProcess":
        """Start it and return when it is ready; raise AssertionError if it ends before."""
        command = [sys.executable, "-m", "cmsfs", "serve", "--data", str(self.data), "--port", str(self.port)]
        with (Path(os.devnull) if self._log is None else self._log).open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--json", *self._options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._env,
            )
        try:
            self.ready_info = json.loads(self._document())
        except BaseException:
            self.stop()
            raise
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])
        return self

    def _document(self) -> str:
        document = ""
        while not document.endswith("\n}\n"):
            line = self.process.stdout.readline() if self.process.stdout else ""
            assert line, "the server did not start"
            document += line
        return document

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def url(self) -> str:
        return str(self.ready_info["url"])

    @property
    def credentials(self) -> dict[str, Any]:
        """Those of the sample's application and of its users."""
        found: dict[str, Any] = json.loads((self.data / "credentials.json").read_text(encoding="utf-8"))
        return found

    def stop(self) -> int:
        """End it, if it runs; its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=STOP_SECONDS)
        code, self._process = self._process.returncode, None
        return code
