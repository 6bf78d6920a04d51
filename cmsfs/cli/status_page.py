"""How `cmsfs status` looks on a terminal.

Rule: the first line says whether all is well; what needs a person comes before what is merely so.
"""

from cmsfs.cli import output
from cmsfs.models import control


def show(status: control.Status) -> None:
    """Print the page."""
    cache, listing = status.cache, status.listing
    requests = ", ".join(f"{kind} {count:,}" for kind, count in sorted(status.requests.items()))
    looked = f"for remote changes {output.ago(status.last_poll)}" if status.last_poll else "not yet"
    output.say(f"{status.mountpoint}: {_summary(status)}")
    output.table(
        [
            ["service", f"{status.profile}, account {status.account}"],
            ["connection", _connection(status.health)],
            ["changes", _changes(status.queue)],
            ["cache", f"{output.size(cache.used_bytes)} of {output.size(cache.limit_bytes)}"],
            ["tree", _tree(listing)],
            *_local(status.local),
            ["requests", requests or "none"],
            ["looked", looked],
            ["daemon", f"process {status.pid}, {status.version}, started {output.ago(status.started)}"],
        ],
        indent="  ",
    )
    if status.queue.ops:
        output.say("")
        output.table([_row(op) for op in status.queue.ops], indent="  ")
        rest = status.queue.pending + status.queue.held - len(status.queue.ops)
        if rest > 0:
            output.say(f"  and {output.plural(rest, 'change')} more")


def _tree(listing: control.Listing) -> str:
    known = output.plural(listing.items, "item")
    if listing.state == "running" and listing.total > listing.items:
        known = f"{listing.items:,} of {listing.total:,} items or more"
    return f"{known}, listing {listing.state}"


def _summary(status: control.Status) -> str:
    if status.queue.held:
        return f"{output.plural(status.queue.held, 'change')} cannot be uploaded"
    if status.health.state not in ("online", "starting"):
        return status.health.state
    if status.queue.pending:
        return "uploading"
    return "up to date" if status.health.state == "online" else "starting"


def _connection(health: control.Health) -> str:
    text = f"{health.state}, since {output.ago(health.since).removesuffix(' ago')}"
    return f"{text}: {health.reason}" if health.reason else text


def _changes(queue: control.Queue) -> str:
    if not queue.pending and not queue.held:
        return "all uploaded"
    parts = [f"{n:,} {word}" for word, n in _counts(queue) if n]
    left = f", {output.size(queue.bytes_pending)} to go" if queue.bytes_pending else ""
    return ", ".join(parts) + left


def _local(local: control.Local) -> list[list[str]]:
    if not local.items:
        return []
    return [
        ["local", f"{output.plural(local.items, 'item')} on this machine only, {output.size(local.bytes)}"]
    ]


def _counts(queue: control.Queue) -> list[tuple[str, int]]:
    return [("held", queue.held), ("running", queue.running), ("waiting", queue.waiting)]


def _row(op: control.Op) -> list[str]:
    state = f"{100 * op.sent // op.size} %" if op.state == "running" and op.size else op.state
    tail = op.path
    if op.error:
        tried = f" (tried {output.plural(op.attempts, 'time')})" if op.attempts > 1 else ""
        tail += f": {op.error}{tried}"
    return [state, op.kind, output.size(op.size) if op.size else "", tail]
