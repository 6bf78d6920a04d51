"""Resolves names in a search that only the service knows: people, and types of metadata fields.

`cmsfs.query` understands the words; the drive's `.search` and `cmsfs search` look up here what they
mean.
"""

from collections.abc import Sequence
from typing import Literal

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models.content import metadata, metadata_queries, search
from cmsfs.query import metadata_terms, ranges


def is_called(who: str, *known: str | None) -> bool:
    """Whether a person's words mean whoever has one of these logins or names."""
    return who.casefold() in [(one or "").casefold() for one in known]


async def find_user(client: Client, who: str) -> str | None:
    """The id of a user whom somebody calls by login, whole name or id, or `me`; None: there is none, or the
    account may not look up others.  Raises `RemoteError`."""
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
    """The service's form of what is asked of metadata; None: there is no such template.

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
    """The service's form of a condition on metadata below a folder; None: there is no such template."""
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
