"""Operations that not every service supports, and which of them a service lacks.

Every service supports searching, uploading new files and restoring web links."""

import enum
from dataclasses import dataclass

from cmsfs import errors


class Ability(enum.StrEnum):
    """A kind of operation that a service may lack.  `cannot` completes "this service cannot ..."."""

    cannot: str

    def __new__(cls, word: str, cannot: str) -> "Ability":
        one = str.__new__(cls, word)
        one._value_, one.cannot = word, cannot
        return one

    ITEMS = "items", "show an item by its ID"
    CONTENTS = "contents", "give out the contents of every file"
    VERSIONS = "versions", "change the contents of files"
    FOLDERS = "folders", "make folders"
    CHANGES = "changes", "rename, move or describe items"
    DELETIONS = "deletions", "delete items"
    WEB_LINKS = "web_links", "make web links"
    METADATA = "metadata", "set metadata"
    METADATA_QUERIES = "metadata_queries", "find items by their metadata"
    HISTORY = "history", "show earlier versions of files"
    POLICIES = "policies", "tell what legal holds and retention policies cover"
    SHARES = "shares", "tell who shares an item, or end that"
    PREFLIGHT = "preflight", "say beforehand whether an upload would be taken"


@dataclass(slots=True)
class ServiceOffers:
    """The abilities that a drive's service lacks; empty until they are known (`daemon.core.abilities`)."""

    lacking: frozenset[Ability] = frozenset()
    # Those of `lacking` about which the service gave no clear answer, and which may turn out to be offered.
    unclear: frozenset[Ability] = frozenset()

    def is_lacking(self, ability: Ability) -> bool:
        """Whether the service certainly lacks it.  Raises `ServerError` while that is unclear."""
        if ability in self.unclear:
            raise errors.ServerError(503, "unclear", f"This service cannot {ability.cannot} at present.")
        return ability in self.lacking

    def is_tried(self, ability: Ability) -> bool:
        """Whether to use it: the service has it, or its response to a request is the only clear answer."""
        return ability in self.unclear or ability not in self.lacking


def not_offered(ability: Ability) -> errors.NotSupported:
    """Return the error for an operation that the service lacks."""
    return errors.NotSupported(405, "not_offered", f"This service cannot {ability.cannot}")
