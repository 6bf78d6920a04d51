"""Probes which operations a service offers.

Each kind of operation is probed with a request that changes nothing: for an item with the id 0, which never
exists, or with a body that lacks a required field.  A service that has the operation complains about the item
or the body; one that lacks it responds as it does to a URL that certainly does not exist, which is probed as
well.

Rule: only the response to an unknown URL, or to an unsupported method, counts as "not offered".  A response
about an item says nothing about the operation, and a missing operation says nothing about items.
"""

from typing import NamedTuple

import trio

from cmsfs import errors
from cmsfs.client.transport.wire import Wire
from cmsfs.config.abilities import Ability

# A path that no service has, and a condition that no item meets.
NOWHERE = "cmsfs_no_such_operation"
NEVER = {"if-match": "cmsfs-none"}

NO_SUCH_METHOD = (405, 501)


class _Question(NamedTuple):
    ability: Ability | None  # None: a probe of an unknown URL, for comparison
    method: str
    path: str
    has_body: bool = False  # an empty one, which lacks required fields
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

# What identifies a response: status, code, message, and the names of the invalid fields.
_Answer = tuple[int, str, str, tuple[str, ...]]


class Findings(NamedTuple):
    """`unclear`: abilities for which the service failed, or a gateway before it responded."""

    lacking: frozenset[Ability]
    unclear: frozenset[Ability]


async def find_out(wire: Wire, base_url: str, upload_url: str) -> Findings:
    """Probe which operations the service lacks.  Raises `RemoteError` if that cannot be determined now."""
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
    # Where it denies other unknown URLs in its own words, a foreign response to one comes from a gateway.
    has_words = any(answer[0] in _FOREIGN and answer[1] for answer in nowhere.values())
    lacking, unclear = set[Ability](), {one.ability for one in failures if one.ability is not None}
    for one, answer in answers.items():
        if one.ability is None:
            continue
        is_foreign = answer[0] in _FOREIGN and answer[1] == ""
        is_denied = answer == nowhere[one.method, one.is_upload] and not (is_foreign and has_words)
        if answer[0] in NO_SUCH_METHOD or is_denied:
            lacking.add(one.ability)
        elif is_foreign:
            # Neither the service's error format nor its response to an unknown URL: a gateway in trouble.
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
