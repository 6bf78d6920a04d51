"""The request that transfers a user's content to another user."""

from cmsfs.models.base import Reference, UpdateBody


class TransferContent(UpdateBody):
    owned_by: Reference  # the new owner
