"""Determines which operations the service offers, once per start, and stores the result for offline starts.

Until the service has answered, the result of an earlier start applies; without one all operations count as
offered, and nothing is sent before the service has answered (`Account.who`).
"""

import json
import logging

from cmsfs.client import offers
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.replica import kv_store
from cmsfs.sqlite import Database

log = logging.getLogger(__name__)


class ServiceAbilities:
    """Fills in `client.offers`.  `varies`: the service may lack operations (`Profile.varies`)."""

    def __init__(self, db: Database, client: Client, *, varies: bool) -> None:
        self._db = db
        self._client = client
        self._is_asked = not varies
        kept = json.loads(kv_store.get(db, kv_store.LACKING) or "{}") if varies else {}
        self._is_known = client.endpoints.base_url in kept
        if self._is_known:
            known = {one.value: one for one in Ability}
            words = kept[client.endpoints.base_url]
            client.offers.lacking = frozenset(known[word] for word in words if word in known)

    async def find_out(self) -> bool:
        """Ask the service, unless it has answered completely since the start, and return whether it has by
        now.  Raises `RemoteError`.

        What stays unclear counts as before, or as not offered, and is to be asked again.
        """
        if self._is_asked:
            return True
        client = self._client
        addresses = client.endpoints
        found = await offers.find_out(client.wire, addresses.base_url, addresses.upload_url)
        open_yet = found.unclear & client.offers.lacking if self._is_known else found.unclear
        lacking = found.lacking | open_yet
        if not found.unclear:
            kept = json.dumps({addresses.base_url: sorted(lacking)})
            await self._db.write(lambda conn: kv_store.put(conn, kv_store.LACKING, kept))
        if lacking != client.offers.lacking:
            for one in sorted(lacking):
                log.info("this service cannot %s%s", one.cannot, " at present" * (one in found.unclear))
        client.offers.lacking, client.offers.unclear = lacking, open_yet
        self._is_known, self._is_asked = True, not found.unclear
        return self._is_asked
