"""The request that gives a user's content to another."""

from cmsfs.models.base import Reference, UpdateBody


class TransferContent(UpdateBody):
    owned_by: Reference  # who has it afterwards
