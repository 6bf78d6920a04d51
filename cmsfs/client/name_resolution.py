"""Resolves names in a search that only the service knows: people, and types of metadata fields.

`cmsfs.query` parses the search; the drive's `.search` and `cmsfs search` resolve its names here.
"""

from collections.abc import Sequence
from typing import Literal

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models.content import metadata, metadata_queries, search
from cmsfs.query import metadata_terms, ranges


def is_called(who: str, *known: str | None) -> bool:
    """Whether `who` equals one of these logins or names, ignoring case."""
    return who.casefold() in [(one or "").casefold() for one in known]


async def find_user(client: Client, who: str) -> str | None:
    """Return the id of the user with this login, full name or id, or `me`; None if there is none, or if the
    account may not look up other users.  Raises `RemoteError`."""
    if who.isascii() and who.isdigit():
        return who
    me = await client.users.me()
    if who == "me" or is_called(who, me.login, me.name):
        return me.id
    try:
        async for user in client.users.list(term=who):
            if is_called(who, user.login, user.name):
                return user.id
    except (errors.Forbidden, errors.NotFound, errors.NotSupported):
        pass
    return None


async def find_metadata(client: Client, asked: metadata_terms.MetadataSearch) -> search.MetadataFilter | None:
    """Return the metadata search as the service's filter; None if there is no such template.

    Raises `UserError` for a field that the template does not have, and `RemoteError`.
    """
    template = await _find_template(client, asked)
    if template is None:
        return None
    types = {one.key: one.type for one in template.fields or ()}
    return asked.filter(types, ranges.Clock())


async def find_metadata_query(
    client: Client, asked: metadata_terms.MetadataSearch, *, folder: str, fields: Sequence[str], limit: int
) -> metadata_queries.MetadataQuery | None:
    """Return a metadata condition below a folder as the service's query; None if there is no such
    template."""
    template = await _find_template(client, asked)
    if template is None:
        return None
    return metadata_queries.MetadataQuery(
        from_=f"{template.scope}.{template.template_key}",
        query=asked.query,
        ancestor_folder_id=folder,
        fields=list(fields),
        limit=min(limit, metadata_queries.MAX_LIMIT),
    )


async def _find_template(client: Client, asked: metadata_terms.MetadataSearch) -> metadata.Template | None:
    scope: Literal["global", "enterprise"] = "global" if asked.scope == "global" else "enterprise"
    try:
        return await client.metadata.template(asked.template, scope)
    except errors.NotFound:
        return None
