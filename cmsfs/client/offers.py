"""Which operations a service offers, found out by asking it.

Each kind of operation is asked for in a way that changes nothing: an item with the ID 0, which is nobody's,
or a body that lacks what it must have.  A service that has the operation answers about the item or the body;
one that has not answers as it does to an address that certainly does not exist, which is asked for as well.

Rule: only the answer to an unknown address, or that there is no such method, counts as "not offered".  What
an operation answers about an item says nothing here, and a missing operation says nothing about items.
"""

from typing import NamedTuple

import trio

from cmsfs import errors
from cmsfs.client.transport.wire import Wire
from cmsfs.config.abilities import Ability

# What nobody offers; and of what nobody has such a version.
NOWHERE = "cmsfs_no_such_operation"
NEVER = {"if-match": "cmsfs-none"}

NO_SUCH_METHOD = (405, 501)


class _Question(NamedTuple):
    ability: Ability | None  # None: what an unknown address is answered with
    method: str
    path: str
    has_body: bool = False  # an empty one, which lacks what it must have
    is_upload: bool = False


_QUESTIONS = [
    _Question(Ability.ITEMS, "GET", "files/0"),
    _Question(Ability.CONTENTS, "GET", "files/0/content"),
    _Question(Ability.VERSIONS, "POST", "files/0/content", is_upload=True),
    _Question(Ability.FOLDERS, "POST", "folders", has_body=True),
    _Question(Ability.CHANGES, "PUT", "files/0", has_body=True),
    _Question(Ability.DELETIONS, "DELETE", "files/0"),
    _Question(Ability.WEB_LINKS, "POST", "web_links", has_body=True),
    _Question(Ability.METADATA, "POST", "files/0/metadata/global/properties", has_body=True),
    _Question(Ability.METADATA_QUERIES, "POST", "metadata_queries/execute_read", has_body=True),
    _Question(Ability.HISTORY, "GET", "files/0/versions"),
    _Question(Ability.POLICIES, "GET", "legal_hold_policy_assignments"),
    _Question(Ability.SHARES, "GET", "files/0/collaborations"),
    _Question(Ability.PREFLIGHT, "OPTIONS", "files/content", has_body=True),
]

# What an answer is told by: status, code, words, and the names of what it finds fault with.
_Answer = tuple[int, str, str, tuple[str, ...]]


class Findings(NamedTuple):
    """`unclear`: where the service failed, or somebody before it answered."""

    lacking: frozenset[Ability]
    unclear: frozenset[Ability]


async def find_out(wire: Wire, base_url: str, upload_url: str) -> Findings:
    """What the service does not offer.  Raises `RemoteError` where it tells nothing now."""
    unknown = {(one.method, one.is_upload) for one in _QUESTIONS}
    controls = [_Question(None, method, f"{NOWHERE}/0", is_upload=upload) for method, upload in unknown]
    answers: dict[_Question, _Answer] = {}
    failures: dict[_Question, errors.RemoteError] = {}

    async def ask(one: _Question) -> None:
        try:
            answers[one] = await _ask(wire, one, upload_url if one.is_upload else base_url)
        except errors.RemoteError as failure:
            failures[one] = failure

    async with trio.open_nursery() as nursery:
        for one in (*controls, *_QUESTIONS):
            nursery.start_soon(ask, one)
    for one, failure in failures.items():
        if one.ability is None or not isinstance(failure, errors.ServerError):
            raise failure
    nowhere = {(one.method, one.is_upload): answers[one] for one in controls}
    lacking, unclear = set[Ability](), {one.ability for one in failures if one.ability is not None}
    for one, answer in answers.items():
        if one.ability is None:
            continue
        if answer[0] in NO_SUCH_METHOD or answer == nowhere[one.method, one.is_upload]:
            lacking.add(one.ability)
        elif answer[1] == "" and answer[0] in _FOREIGN:
            # Nobody's words, and not those for an unknown address: a gateway in trouble.
            unclear.add(one.ability)
    return Findings(frozenset(lacking), frozenset(unclear))


_FOREIGN = (403, 404, 410)


async def _ask(wire: Wire, one: _Question, base: str) -> _Answer:
    try:
        await wire.tell(one.method, f"{base}/{one.path}", headers=NEVER, body={} if one.has_body else None)
    except errors.Unauthorized:
        raise
    except errors.NotOurs as refusal:
        return (refusal.status, "", "", ())
    except errors.ApiError as refusal:
        if refusal.status == 429 or (refusal.status >= 500 and refusal.status not in NO_SUCH_METHOD):
            raise
        faults = refusal.context_info.get("errors")
        names = [str(each.get("name")) for each in faults or () if isinstance(each, dict)]
        return (refusal.status, refusal.code, refusal.message.replace(one.path, ""), tuple(names))
    return (200, "", "", ())
