"""Time, chance and threads come from `cmsfs.runtime`: nothing else asks the machine for them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

TAKEN = {
    "time": {
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"),
        *("clock_gettime", "clock_gettime_ns"),
    },
    "datetime": {"now", "today", "utcnow", "datetime.now", "datetime.today", "datetime.utcnow", "date.today"},
    "date": {"today"},
    "os": {"urandom", "getrandom"},
    "uuid": {"uuid1", "uuid4"},
    "threading": {"Thread", "Timer"},
    "trio": {"to_thread", "to_thread.run_sync"},
}
# Nothing of these but through `cmsfs.runtime`.
WHOLE = {"random", "secrets", "concurrent.futures", "_thread"}

# The others are not parsed: all of them would take seconds.
SUSPECT = re.compile(
    r"^\s*(?:import|from) (?:time|datetime|uuid|threading|random|secrets|concurrent|_thread)\b"
    r"|urandom|getrandom|to_thread",
    re.MULTILINE,
)

EXCEPTIONS = {
    # A child of the service that judges documents: no story runs in it, and its imports are few.
    "cmsfs/service/worker/worker.py": {"threading.Thread"},
    "cmsfs/service/worker/extraction.py": {"time.monotonic"},
    # A program of its own without our modules.
    "daemon/survival/holder.py": {"time.monotonic"},
}


def asked(source: str) -> Iterator[str]:
    """What a module takes from the machine itself, under whatever name it was imported."""
    if not SUSPECT.search(source):
        return
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name] = one.name
                if one.name in WHOLE:
                    yield one.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                if node.module in WHOLE:
                    yield node.module
                elif one.name in TAKEN.get(node.module, ()):
                    yield f"{node.module}.{one.name}"
                elif node.module == "datetime":
                    names[one.asname or one.name] = one.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            holder, _, what = dotted(node).partition(".")
            if what in TAKEN.get(names.get(holder, ""), ()):
                yield f"{names[holder]}.{what}"


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_nothing_asks_the_machine_for_time_chance_or_threads():
    found = {}
    for path in sorted([*ROOT.glob("cmsfs/**/*.py"), *ROOT.glob("daemon/**/*.py")]):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith("cmsfs/runtime/") and (taken := set(asked(path.read_text(encoding="utf-8")))):
            found[place] = taken
    assert found == EXCEPTIONS, "take it from cmsfs.runtime"


def test_asking_is_seen_under_any_name():
    lines = {
        "import time as t\nt.monotonic()": "time.monotonic",
        "from time import sleep": "time.sleep",
        "import datetime\ndatetime.datetime.now()": "datetime.datetime.now",
        "from datetime import datetime as moment\nwhen = moment.now": "datetime.now",
        "import secrets": "secrets",
        "from random import uniform": "random",
        "import trio\ntrio.to_thread.run_sync(f)": "trio.to_thread",
    }
    for source, taken in lines.items():
        assert taken in set(asked(source)), source
    assert not set(asked("import time\nfrom datetime import time as t\ntime.strftime('%Y')\ntrio.sleep(1)"))
