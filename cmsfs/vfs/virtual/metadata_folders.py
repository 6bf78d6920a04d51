"""`.by`: metadata templates as folders, with their values as folders and matching items as links.

    .by/                                   lists the templates
    .by/contract/                          its values, such as `status=open/`, and all items with the template
    .by/contract/status=open/sum=5..10/    further values of the matching items, and the items with both

Moving an item into the folder of a value sets the value; the item itself is not moved.  The entries of a
folder and the number of items per value come from one listing of the items (`metadata_listings`), not from a
request for each.

Rule: a folder lists only values that match fewer items than it has; others can be opened by name.
"""

import errno
import logging
import os
from collections.abc import Mapping, Sequence

from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual import value_names
from cmsfs.vfs.virtual.metadata_listings import Found, Listings, MetadataPort, TemplateView
from cmsfs.vfs.virtual.node import VirtualFolder, VirtualLink, VirtualNode
from cmsfs.vfs.virtual.search_results import Match
from cmsfs.vfs.virtual.value_names import ValueFilter

log = logging.getLogger(__name__)

TEMPLATE = "user.cms.by.template"
TOTAL = "user.cms.by.total"
SHOWN = "user.cms.by.shown"
PARTIAL = "user.cms.by.partial"

# Number of entries returned at a time.
_PAGE = 256


class MetadataFolder(VirtualFolder):
    """The folder `.by`."""

    def __init__(self, port: MetadataPort) -> None:
        # Constant: backup programs and file managers check whether a folder has changed.
        self._since_ns = clock.time_ns()
        super().__init__("by", mtime_ns=self._since_ns)
        self._port = port
        self._listings = Listings(port)

    async def child(self, name: str) -> VirtualNode:
        if name.startswith("."):
            # Names that programs look up in every folder by themselves.
            raise errno_map.oserror(errno.ENOENT, name)
        for one in await self._port.templates():
            if one.name == name:
                return self._folder(one)
        raise errno_map.oserror(errno.ENOENT, name)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        shown = [one for one in await self._port.templates() if not one.is_hidden]
        return [(one.name, self._folder(one)) for one in shown[position : position + _PAGE]]

    def _folder(self, template: TemplateView) -> "ValueFolder":
        return ValueFolder(self._port, self._listings, template, (), self._since_ns)


class ValueFolder(VirtualFolder):
    """The items of a template that have all these values; `found`: the items for an open handle."""

    mode = 0o700

    def __init__(
        self,
        port: MetadataPort,
        listings: Listings,
        template: TemplateView,
        filters: tuple[ValueFilter, ...],
        since_ns: int,
        found: Found | None = None,
    ) -> None:
        super().__init__(("by", template.name, *(one.name for one in filters)), mtime_ns=since_ns)
        self._port = port
        self._listings = listings
        self._template = template
        self._filters = filters
        self._since_ns = since_ns
        self._found = found

    @property
    def path(self) -> str:
        """The path of the folder, for messages."""
        return "/".join((".by", self._template.name, *(one.name for one in self._filters)))

    # ---- what is in it -------------------------------------------------------------------------

    async def opened(self) -> "ValueFolder":
        return self._like(self._filters, await self._listings.read(self._template, self._filters))

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        found = self._found or await self._listings.read(self._template, self._filters)
        folders = [
            (one.name, self._like((*self._filters, one))) for one in self._values(found)
        ]  # before the items
        links = [(name, self._link(name, match)) for name, match in found.by_name.items()]
        return [*folders, *links][position : position + _PAGE]

    async def child(self, name: str) -> VirtualNode:
        if name.startswith("."):
            known = self._listings.known(self._template, self._filters)
            if known is None or name not in known.by_name:
                raise errno_map.oserror(errno.ENOENT, name)
        if (one := await self._value(name)) is not None:
            return self._like((*self._filters, one))
        known = self._listings.known(self._template, self._filters)
        if known is None or name not in known.by_name:
            known = await self._listings.read(self._template, self._filters)
        if (match := known.by_name.get(name)) is None:
            if (expected := value_names.expected(name, self._template.fields)) is not None:
                log.info("there is no %s/%s: %s", self.path, name, expected)
            raise errno_map.oserror(errno.ENOENT, name)
        return self._link(name, match)

    async def _value(self, name: str) -> ValueFilter | None:
        """Return the value that a name represents; None if it is not one of the template."""
        if value_names.is_hashed(name) and name.partition("=")[0] in self._template.fields:
            found = await self._listings.read(self._template, self._filters)
            return next((one for one in self._all_values(found) if one.name == name), None)
        return value_names.of_name(name, self._template.fields, is_free=self._template.is_free)

    def _values(self, found: Found) -> list[ValueFilter]:
        """Return the values to list."""
        return [one for part in self._by_field(found) for one in part[: value_names.MOST_VALUES]]

    def _all_values(self, found: Found) -> list[ValueFilter]:
        return [one for part in self._by_field(found) for one in part]

    def _by_field(self, found: Found) -> list[list[ValueFilter]]:
        parts = []
        for field in self._template.fields.values():
            within = next((one for one in reversed(self._filters) if one.field == field.key), None)
            if field.hidden or (
                within is not None and within.value is not None and field.type != "multiSelect"
            ):
                continue
            values = [value for one in found.rows if (value := one.values.get(field.key)) is not None]
            words = value_names.words_of(field, values, within)
            here = {one.word for one in self._filters if one.field == field.key}
            # Dates can always be narrowed further: a year has months.
            is_open = not self._filters or field.type == "date"
            parts.append(
                [
                    one
                    for word, count in words.items()
                    if word not in here and (is_open or count < len(found.rows))
                    if (one := value_names.of_word(field, word)) is not None
                ]
            )
        return parts

    def _like(self, filters: tuple[ValueFilter, ...], found: Found | None = None) -> "ValueFolder":
        return ValueFolder(self._port, self._listings, self._template, filters, self._since_ns, found)

    def _link(self, name: str, match: Match) -> VirtualLink:
        up = "../" * (2 + len(self._filters))
        return VirtualLink((self.key, name), os.fsencode(up + match.path), mtime_ns=match.mtime_ns)

    # ---- attributes ----------------------------------------------------------------------------

    async def xattrs(self) -> Mapping[str, bytes]:
        """Return what is known without a request, because `ls -l` reads all attributes."""
        told = {TEMPLATE: self._template.title.encode()}
        known = self._listings.known(self._template, self._filters)
        return told if known is None else told | self._counts(known)

    async def xattr(self, name: str) -> bytes | None:
        if name in (TOTAL, SHOWN, PARTIAL):
            return self._counts(await self._listings.read(self._template, self._filters)).get(name)
        return await super().xattr(name)

    def _counts(self, found: Found) -> dict[str, bytes]:
        told = {SHOWN: str(len(found.rows)).encode()}
        if found.is_whole:
            told[TOTAL] = told[SHOWN]
        notes = [found.note] if found.note else []
        if not found.is_whole:
            notes.append(f"the first {len(found.rows)} items; there are more")
        notes += [
            f"{value_names.MOST_VALUES} of {len(part)} values of {part[0].field}"
            for part in self._by_field(found)
            if len(part) > value_names.MOST_VALUES
        ]
        return told | {PARTIAL: "; ".join(notes).encode()} if notes else told

    # ---- moving an item in ---------------------------------------------------------------------

    async def take_in(self, parent: int, name: str, new_name: str, flags: int) -> None:
        self.check_move(name, new_name, flags)
        await self.assign(self._port.find(parent, name), name, ())

    async def rename(self, name: str, into: VirtualFolder, new_name: str, flags: int) -> None:
        if not isinstance(into, ValueFolder) or into is self:
            raise errno_map.oserror(errno.EPERM, name)
        into.check_move(name, new_name, flags)
        known = self._listings.known(self._template, self._filters)
        if known is None or name not in known.by_name:
            known = await self._listings.read(self._template, self._filters)
        if (match := known.by_name.get(name)) is None:
            raise errno_map.oserror(errno.ENOENT, name)
        await into.assign(await self._port.find_path(match.path), name, self._filters)

    def check_move(self, name: str, new_name: str, flags: int) -> None:
        """Raise `OSError` for a move into a range, or with a new name."""
        if not self._filters or new_name != name or flags & ~_NOREPLACE:
            raise errno_map.oserror(errno.EPERM, f"{self.path}/{new_name}")
        for one in self._filters:
            if one.value is None:
                log.warning(
                    "%s cannot be moved into %s: %s is a range, not a value", name, self.path, one.word
                )
                raise errno_map.oserror(errno.EINVAL, one.name)

    async def assign(self, ino: int, name: str, before: Sequence[ValueFilter]) -> None:
        """Set the values of this folder on an item; `before`: those of the folder it is moved out of."""
        chosen: dict[str, list[ValueFilter]] = {}
        for one in self._filters:
            chosen.setdefault(one.field, []).append(one)
        try:
            for field, wanted in chosen.items():
                if wanted[0].type == "multiSelect":
                    left = {one.word for one in before if one.field == field}
                    text = await self._options(ino, field, left, [one.word for one in wanted])
                else:
                    text = wanted[-1].value or ""
                await self._port.assign(ino, self._template, field, text)
        except OSError as error:
            if error.errno != errno.EINVAL:  # which was logged already
                log.warning("%s cannot be moved into %s: %s", name, self.path, error.strerror)
            raise
        finally:
            # Some values may have been set before another one was rejected.
            self._listings.forget(self._template)

    async def _options(self, ino: int, field: str, left: set[str], wanted: Sequence[str]) -> str:
        """Return the options of an item, plus those wanted, minus those of the folder that it leaves."""
        now = await self._port.options(ino, self._template, field)
        kept = [one for one in now if one not in left]
        words = list(dict.fromkeys([*kept, *wanted]))
        return ("\n" if any("," in word for word in words) else ",").join(words)


_NOREPLACE = 1  # RENAME_NOREPLACE
