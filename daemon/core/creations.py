"""Items that are being created at the service: until the answer arrives, nobody knows their IDs."""

from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager

from cmsfs.models import wire_names

# The folder's ID at the service, and the key of the name.
Place = tuple[str | None, str]


class Creations:
    """The places of items whose creation is not answered yet."""

    def __init__(self) -> None:
        self._places: Counter[Place] = Counter()
        self._compared: set[Place] = set()

    @property
    def places(self) -> Set[Place]:
        return self._places.keys()

    @contextmanager
    def under_way(self, parent_id: str, name: str) -> Iterator[None]:
        """Context while an item of this name is being created in this folder."""
        place = (parent_id, wire_names.name_key(name))
        self._places[place] += 1
        try:
            yield
        finally:
            self._places[place] -= 1
            if not self._places[place]:
                del self._places[place]
                self._compared.discard(place)

    def note_comparison(self) -> None:
        """Record that everything is compared with the service from now on, since changes may be missed:
        that these are gone is not found, as nobody knows them yet."""
        self._compared.update(self._places)

    def were_compared(self, parent_id: str | None, name: str) -> bool:
        """Whether such a comparison began while this item was being created."""
        return bool(self._compared) and (parent_id, wire_names.name_key(name)) in self._compared
