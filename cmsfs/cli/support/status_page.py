"""Renders `cmsfs status` on a terminal.

Rule: the first line says whether all is well; items that need attention come before plain information.
"""

from cmsfs import output
from cmsfs.ipc import attention, control, diagnostics


def show(status: control.DriveStatus) -> None:
    """Print the page."""
    output.say(f"{status.mountpoint}: {summary(status)}")
    output.table(rows(status), indent="  ")
    if status.queue.ops:
        output.say("")
        output.table([_row(op) for op in status.queue.ops], indent="  ")
        rest = status.queue.pending + status.queue.held - len(status.queue.ops)
        if rest > 0:
            output.say(f"  and {output.plural(rest, 'change')} more")


def rows(status: control.DriveStatus) -> list[list[str]]:
    """Return the rows of the page: label and value."""
    cache = status.cache
    requests = ", ".join(f"{kind} {count:,}" for kind, count in sorted(status.requests.items()))
    looked = f"{output.ago(status.last_poll)}" if status.last_poll else "not yet"
    waiting = _waiting(status.budget)
    return [
        ["service", f"{status.profile}, account {status.account}"],
        ["connection", _connection(status.health)],
        ["changes", changes(status.queue)],
        *([["guard", _guard(status.guard)]] if status.guard else []),
        ["cache", f"{output.size(cache.used_bytes)} of {output.size(cache.limit_bytes)}"],
        ["tree", _tree(status.listing)],
        *_local(status.local),
        *_hidden(status.hidden),
        *_troubles(status.troubles),
        *([["pinned", _pins(status.pins)]] if status.pins.items else []),
        *([["disk", told] for told in status.disk]),
        *([["recovered", _recovered(status.recovered)]] if status.recovered else []),
        *([["missing", _missing(status.missing)]] if status.missing else []),
        *([["shared", _offers(status.offers)]] if status.offers else []),
        ["requests", requests or "none"],
        *([["scheduler", waiting]] if waiting else []),
        ["last poll", looked],
        ["daemon", f"process {status.pid}, {status.version}, started {output.ago(status.started)}"],
        *([["upgrade", _upgrade(status)]] if status.installed else []),
    ]


def _upgrade(status: control.DriveStatus) -> str:
    if status.installed == "none":
        return "cmsfs is not installed any more; this drive runs until it is unmounted"
    program = output.command()
    return f"{status.installed} is installed; `{program} upgrade` switches to it"


def _waiting(budget: diagnostics.SchedulerStatus) -> str:
    parts = []
    if budget.held_up_seconds:
        parts.append(f"rate-limited; retrying in {budget.held_up_seconds:.0f} s")
    for name, turns in budget.queues.items():
        parts.append(f"{name} {turns.running:,} running, {turns.waiting:,} queued")
    return "; ".join(parts)


def _tree(listing: diagnostics.ListingStatus) -> str:
    known = output.plural(listing.items, "item")
    if listing.state == "running" and listing.total > listing.items:
        known = f"{listing.items:,} of {listing.total:,} items or more"
    return f"{known}, listing {listing.state}"


def _pins(pinning: diagnostics.Pinning) -> str:
    files = sum(one.files for one in pinning.items)
    here = sum(one.files_here for one in pinning.items)
    total, bytes_here = (
        sum(getattr(one, field) for one in pinning.items) for field in ("bytes", "bytes_here")
    )
    if pinning.is_complete:
        return f"complete, {output.plural(files, 'file')}, {output.size(total)}"
    text = f"{here:,} of {output.plural(files, 'file')}, {output.size(bytes_here)} of {output.size(total)}"
    return f"{text}: {pinning.problem}" if pinning.problem else text


def summary(status: control.DriveStatus) -> str:
    """Return the overall state, in a word or two."""
    if status.guard:
        return "uploads are held by the guard"
    if status.queue.held:
        return f"{output.plural(status.queue.held, 'change')} cannot be uploaded"
    if status.missing:
        return f"{output.plural(status.missing, 'item')} missing at the service"
    if status.health.state not in ("online", "starting"):
        return status.health.state
    if status.disk:
        return "low disk space"
    if status.queue.pending:
        return "uploading"
    return "up to date" if status.health.state == "online" else "starting"


def _connection(health: diagnostics.HealthStatus) -> str:
    text = f"{health.state}, since {output.ago(health.since).removesuffix(' ago')}"
    return f"{text}: {health.reason}" if health.reason else text


def changes(queue: control.QueueStatus) -> str:
    """Describe the pending changes."""
    if not queue.pending and not queue.held:
        return "all uploaded"
    parts = [f"{n:,} {word}" for word, n in _counts(queue) if n]
    left = f", {output.size(queue.bytes_pending)} to go" if queue.bytes_pending else ""
    return ", ".join(parts) + left


def _recovered(count: int) -> str:
    files = output.plural(count, "file")
    return f"{files} with no place on the drive; `{output.command()} conflicts` lists them"


def _offers(count: int) -> str:
    items = output.plural(count, "item")
    return f"{items} shared with you and not accepted yet; `{output.command()} shared` lists them"


def _missing(count: int) -> str:
    items = output.plural(count, "item")
    return f"{items} missing at the service; decide with `{output.command()} missing`"


def _guard(notice: attention.GuardNotice) -> str:
    return f"{notice.sentence} Nothing more is uploaded; decide with `{output.command()} guard`"


def _local(local: diagnostics.LocalStatus) -> list[list[str]]:
    if not local.items:
        return []
    return [["local", f"{output.plural(local.items, 'item')} local only, {output.size(local.bytes)}"]]


def _hidden(hidden: diagnostics.HiddenFiles) -> list[list[str]]:
    if not hidden.items:
        return []
    named = ", ".join(hidden.names) + (", ..." if hidden.items > len(hidden.names) else "")
    told = (
        f"{output.plural(hidden.items, 'item')} hidden below the mount, saved while the drive was not "
        f"mounted ({named})"
    )
    return [["hidden", f"{told}; `cmsfs adopt` moves them into the drive"]]


def _troubles(troubles: diagnostics.Troubles) -> list[list[str]]:
    found = [["stuck", f"{one.name}{_lasted(one.seconds)}: {one.reason}"] for one in troubles.stalled]
    found += [
        [
            "corrupt",
            f"{path}: the download does not match its SHA-1 and was discarded; read the file again",
        ]
        for path in troubles.came_wrong
    ]
    found += [["skipped", line] for line in troubles.left_out]
    if (rest := troubles.left_out_items - len(troubles.left_out)) > 0:
        found.append(["skipped", f"{output.plural(rest, 'item')} more; see the log"])
    return found


def _lasted(seconds: float) -> str:
    return f", for {seconds / 60:.0f} min" if seconds >= 60 else ""


def _counts(queue: control.QueueStatus) -> list[tuple[str, int]]:
    return [("held", queue.held), ("running", queue.running), ("waiting", queue.waiting)]


def _row(op: attention.PendingChange) -> list[str]:
    state = f"{100 * op.sent // op.size} %" if op.state == "running" and op.size else op.state
    tail = op.path
    if op.error:
        tried = f" (tried {output.plural(op.attempts, 'time')})" if op.attempts > 1 else ""
        tail += f": {op.error}{tried}"
    return [state, op.kind, output.size(op.size) if op.size else "", tail]
