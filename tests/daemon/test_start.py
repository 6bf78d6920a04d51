"""What a start loads: whoever works on a drive waits for it after a crash."""

import json
import subprocess
import sys

_LOOK = """
import json, sys
from daemon import __main__
sys.argv = ["cmsfsd", "--version"]
try:
    __main__.main()
except SystemExit:
    pass
from cmsfs.models import base

def below(model):
    for one in model.__subclasses__():
        yield one
        yield from below(one)

built = sorted({one.__name__ for one in below(base.Model) if one.__pydantic_complete__})
print(json.dumps({"modules": [name for name, module in sys.modules.items() if module], "built": built}))
"""

# The service's web framework, what parses documents, and what paints tables.
_UNUSED = {"starlette", "jinja2", "multipart", "PIL", "lxml", "pypdfium2", "rich", "pygments", "obstore"}
# What comes after the mount: the connection and the embedded service, and what few drives use.
_LATER = {"httpx", "httpcore", "h11", "jeepney", "jwt", "cryptography"}


def test_start_imports_nothing_unneeded() -> None:
    done = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert _UNUSED.isdisjoint(name.partition(".")[0] for name in found["modules"])
    assert _LATER.isdisjoint(name.partition(".")[0] for name in found["modules"])
    assert not [name for name in found["modules"] if name.startswith("cmsfs.service")]
    assert set(found["built"]) <= {"MarkerPage"}  # pydantic builds what an annotation makes special
