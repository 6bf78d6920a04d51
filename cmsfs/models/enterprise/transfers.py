"""The request that gives a user's content to another."""

from cmsfs.models.base import Model, Reference


class TransferContent(Model):
    owned_by: Reference  # who has it afterwards
