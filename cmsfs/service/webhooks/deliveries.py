"""Delivers what webhooks are to be told: signed, and again later if the receiver did not take it.

Deliveries are rows (webhook_triggers.py), so a restart loses none.  Each is claimed before it is sent, so
that of several processes on one store one sends it.  Retries wait twice as long each time, from half a minute
to two hours; after the tenth in vain the delivery is given up.

Rule: a delivery that was taken is not made again, unless the service died before it could note that.
"""

import base64
import collections
import hashlib
import hmac
import json
import logging
from datetime import UTC, datetime
from sqlite3 import Connection, Row
from urllib.parse import urlsplit

import trio

from cmsfs.runtime import chance, clock
from cmsfs.service.storage import engine, store
from cmsfs.service.webhooks import receivers

log = logging.getLogger(__name__)

# Requests at a time, of all webhooks together; and of one address, so that a slow one delays only itself.
AT_ONCE = 16
PER_ADDRESS = 4
ATTEMPTS = 10
FIRST_RETRY_SECONDS = 30
LAST_RETRY_SECONDS = 7200
# Who has claimed a delivery has so long; afterwards it is anybody's.
CLAIM_SECONDS = 2 * receivers.SECONDS
# How often it is looked whether another process, or the clock, has something to be done.
LOOK_SECONDS = 5.0

_DUE = """
  SELECT * FROM webhook_delivery
    WHERE due_at <= ? AND address NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, id LIMIT 1
"""
_CLAIM = "UPDATE webhook_delivery SET due_at = ? WHERE id = ? AND due_at = ?"


async def run(opened: store.Store, allowed: receivers.Networks = ()) -> None:
    """Deliver what is due, until cancelled."""
    async with trio.open_nursery() as nursery:
        await _Deliveries(opened, allowed, nursery).run()


class _Deliveries:
    """What is on its way, by address."""

    def __init__(self, opened: store.Store, allowed: receivers.Networks, nursery: trio.Nursery) -> None:
        self._store = opened
        self._allowed = allowed
        self._nursery = nursery
        self._under_way: collections.Counter[str] = collections.Counter()

    async def run(self) -> None:
        while True:
            # Taken before looking: what comes after the look sets it.  So does the end of a delivery, as what
            # became of it is written: one event to wait for, at every change that anybody makes.
            written = self._store.written
            try:
                while await self._start_one():
                    pass
            except engine.DatabaseUnavailable as error:
                log.debug("webhooks cannot be delivered: %s", error)  # the database says so once
            except OSError as error:
                log.warning("webhooks cannot be delivered: %s; tried again in a moment", error)
            except Exception:
                log.exception("webhooks cannot be delivered; tried again in a moment")
            with trio.move_on_after(LOOK_SECONDS):
                await written.wait()

    async def _start_one(self) -> bool:
        """Send the delivery that is due longest, if any is and there is room for it."""
        if self._under_way.total() >= AT_ONCE:
            return False
        full = [address for address, number in self._under_way.items() if number >= PER_ADDRESS]
        now = self._store.now()
        rows = self._store.read(_DUE, now, json.dumps(full))
        if not rows:
            return False
        row, until = rows[0], now + CLAIM_SECONDS * 1_000_000
        claimed = await self._store.write(
            lambda conn: conn.execute(_CLAIM, (until, row["id"], row["due_at"])).rowcount
        )
        if claimed:
            self._under_way[row["address"]] += 1
            self._nursery.start_soon(self._try, row)
        return True

    async def _try(self, row: Row) -> None:
        try:
            await _settle(self._store, row, await _sent(self._store, row, self._allowed))
        except OSError as error:
            # The store has no room; once the claim is over it is sent again.
            log.warning("what became of a webhook's delivery cannot be noted: %s", error)
        finally:
            self._under_way[row["address"]] -= 1
            if not self._under_way[row["address"]]:
                del self._under_way[row["address"]]


async def _settle(opened: store.Store, row: Row, reason: str | None) -> None:
    """Note that a delivery was taken, or when it is tried again."""
    attempts = row["attempts"] + 1
    wait = min(FIRST_RETRY_SECONDS * 2 ** (attempts - 1), LAST_RETRY_SECONDS)
    due = opened.now() + wait * 1_000_000

    def txn(conn: Connection) -> None:
        if reason is None or attempts >= ATTEMPTS:
            conn.execute("DELETE FROM webhook_delivery WHERE id = ?", (row["id"],))
        else:
            sql = "UPDATE webhook_delivery SET attempts = ?, due_at = ? WHERE id = ?"
            conn.execute(sql, (attempts, due, row["id"]))

    if reason is not None:
        # The rest of the address may be a secret.
        host = urlsplit(row["address"]).hostname
        log.info("%s did not take a webhook's delivery: %s (attempt %d)", host, reason, attempts)
    await opened.write(txn)


async def _sent(opened: store.Store, row: Row, allowed: receivers.Networks) -> str | None:
    """None if the receiver took it; otherwise why not."""
    body = row["body"].encode("ascii")
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "cmsfs-webhooks/1",
        "BOX-DELIVERY-ID": str(chance.uuid4()),
    }
    keys = opened.read("SELECT * FROM signature_key WHERE app = ?", row["app"])
    # Whole seconds: receivers refuse what is of the future by their clock.
    moment = datetime.fromtimestamp(int(clock.time()), UTC).isoformat()
    headers["BOX-DELIVERY-TIMESTAMP"] = moment
    if keys:
        headers["BOX-SIGNATURE-VERSION"] = "1"
        headers["BOX-SIGNATURE-ALGORITHM"] = "HmacSHA256"
        headers["BOX-SIGNATURE-PRIMARY"] = signature(keys[0]["main"], body, moment)
        headers["BOX-SIGNATURE-SECONDARY"] = signature(keys[0]["secondary"], body, moment)
    try:
        with trio.fail_after(receivers.SECONDS):
            status = await receivers.post(row["address"], headers, body, allowed)
    except trio.TooSlowError:
        return "it did not answer in time"
    except (receivers.NotReachable, OSError, ValueError, trio.BrokenResourceError) as error:
        return str(error) or type(error).__name__
    return None if 200 <= status < 300 else f"it answered {status}"


def signature(key: str, body: bytes, moment: str) -> str:
    """What a receiver who has the key finds to be ours."""
    made = hmac.new(key.encode(), body + moment.encode(), hashlib.sha256)
    return base64.b64encode(made.digest()).decode()
