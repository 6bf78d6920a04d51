"""Delivers webhook events: signs each request and retries if the receiver did not accept it.

Deliveries are rows (webhook_triggers.py), so a restart loses none.  Each is claimed before it is sent, so
that only one of the processes that share a store sends it.  The retry interval doubles, from half a minute to
two hours; after ten failed attempts the delivery is dropped.

Rule: an accepted delivery is not sent again, unless the service died before it could record that.
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

# Concurrent requests in total, and per address, so that a slow receiver delays only itself.
MAX_CONCURRENT = 16
MAX_PER_ADDRESS = 4
MAX_ATTEMPTS = 10
FIRST_RETRY_SECONDS = 30
MAX_RETRY_SECONDS = 7200
# A claim expires after this time; then any process may claim the delivery.
CLAIM_SECONDS = 2 * receivers.TIMEOUT_SECONDS
# How often we check for deliveries queued by other processes and for retries that are due.
POLL_SECONDS = 5.0

_DUE = """
  SELECT * FROM webhook_delivery
    WHERE due_at <= ? AND address NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, id LIMIT 1
"""
_CLAIM = "UPDATE webhook_delivery SET due_at = ? WHERE id = ? AND due_at = ?"


async def run(opened: store.Store, allowed: receivers.Networks = ()) -> None:
    """Send due deliveries until cancelled."""
    async with trio.open_nursery() as nursery:
        await _Deliveries(opened, allowed, nursery).run()


class _Deliveries:
    """The deliveries being sent, counted by address."""

    def __init__(self, opened: store.Store, allowed: receivers.Networks, nursery: trio.Nursery) -> None:
        self._store = opened
        self._allowed = allowed
        self._nursery = nursery
        self._in_flight: collections.Counter[str] = collections.Counter()

    async def run(self) -> None:
        while True:
            # Taken before polling: a write after the poll sets it.  The end of a delivery sets it too, since
            # its result is written: this one event covers every change.
            written = self._store.written
            try:
                while await self._start_one():
                    pass
            except engine.DatabaseUnavailable as error:
                log.debug("webhooks cannot be delivered: %s", error)  # the store logs the outage once
            except OSError as error:
                log.warning("webhooks cannot be delivered: %s; retrying shortly", error)
            except Exception:
                log.exception("webhooks cannot be delivered; retrying shortly")
            with trio.move_on_after(POLL_SECONDS):
                await written.wait()

    async def _start_one(self) -> bool:
        """Start the delivery that has been due longest; return False if none is due or all slots are busy."""
        if self._in_flight.total() >= MAX_CONCURRENT:
            return False
        full = [address for address, number in self._in_flight.items() if number >= MAX_PER_ADDRESS]
        now = self._store.now()
        rows = self._store.read(_DUE, now, json.dumps(full))
        if not rows:
            return False
        row, until = rows[0], now + CLAIM_SECONDS * 1_000_000
        claimed = await self._store.write(
            lambda conn: conn.execute(_CLAIM, (until, row["id"], row["due_at"])).rowcount
        )
        if claimed:
            self._in_flight[row["address"]] += 1
            self._nursery.start_soon(self._deliver, row)
        return True

    async def _deliver(self, row: Row) -> None:
        try:
            await _record_result(self._store, row, await _send(self._store, row, self._allowed))
        except (OSError, engine.DatabaseUnavailable) as error:
            # No space left, or no database server; the delivery is sent again when the claim expires.
            log.warning("cannot record the result of a webhook delivery: %s", error)
        finally:
            self._in_flight[row["address"]] -= 1
            if not self._in_flight[row["address"]]:
                del self._in_flight[row["address"]]


async def _record_result(opened: store.Store, row: Row, reason: str | None) -> None:
    """Delete a delivery that was accepted or failed too often; otherwise schedule its retry."""
    attempts = row["attempts"] + 1
    wait = min(FIRST_RETRY_SECONDS * 2 ** (attempts - 1), MAX_RETRY_SECONDS)
    due = opened.now() + wait * 1_000_000

    def txn(conn: Connection) -> None:
        if reason is None or attempts >= MAX_ATTEMPTS:
            conn.execute("DELETE FROM webhook_delivery WHERE id = ?", (row["id"],))
        else:
            sql = "UPDATE webhook_delivery SET attempts = ?, due_at = ? WHERE id = ?"
            conn.execute(sql, (attempts, due, row["id"]))

    if reason is not None:
        # Log the host only: the rest of the address may be secret.
        host = urlsplit(row["address"]).hostname
        log.info("%s did not accept a webhook delivery: %s (attempt %d)", host, reason, attempts)
    await opened.write(txn)


async def _send(opened: store.Store, row: Row, allowed: receivers.Networks) -> str | None:
    """Send a delivery; return None if the receiver accepted it, otherwise the reason."""
    body = row["body"].encode("ascii")
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "cmsfs-webhooks/1",
        "BOX-DELIVERY-ID": str(chance.uuid4()),
    }
    keys = opened.read("SELECT * FROM signature_key WHERE app = ?", row["app"])
    # Whole seconds, rounded down: receivers reject timestamps in the future.
    timestamp = datetime.fromtimestamp(int(clock.time()), UTC).isoformat()
    headers["BOX-DELIVERY-TIMESTAMP"] = timestamp
    if keys:
        headers["BOX-SIGNATURE-VERSION"] = "1"
        headers["BOX-SIGNATURE-ALGORITHM"] = "HmacSHA256"
        headers["BOX-SIGNATURE-PRIMARY"] = signature(keys[0]["main"], body, timestamp)
        headers["BOX-SIGNATURE-SECONDARY"] = signature(keys[0]["secondary"], body, timestamp)
    try:
        with trio.fail_after(receivers.TIMEOUT_SECONDS):
            status = await receivers.post(row["address"], headers, body, allowed)
    except trio.TooSlowError:
        return "it did not answer in time"
    except (receivers.NotReachable, OSError, ValueError, trio.BrokenResourceError) as error:
        return str(error) or type(error).__name__
    return None if 200 <= status < 300 else f"it answered {status}"


def signature(key: str, body: bytes, timestamp: str) -> str:
    """Return the signature that a receiver with the same key computes."""
    made = hmac.new(key.encode(), body + timestamp.encode(), hashlib.sha256)
    return base64.b64encode(made.digest()).decode()
