"""Storage policies, which define where contents are stored, and their assignments."""

from typing import Literal

from cmsfs.models.base import Model, UpdateBody


class StoragePolicy(Model):
    type: Literal["storage_policy"] = "storage_policy"
    id: str
    name: str | None = None


class StorageTarget(Model):
    type: Literal["user", "enterprise"]
    id: str


class StoragePolicyReference(Model):
    type: Literal["storage_policy"] = "storage_policy"
    id: str


class NewStorageAssignment(Model):
    storage_policy: StoragePolicyReference
    assigned_to: StorageTarget


class UpdateStorageAssignment(UpdateBody):
    storage_policy: StoragePolicyReference | None = None


class StorageAssignment(Model):
    type: Literal["storage_policy_assignment"] = "storage_policy_assignment"
    id: str
    storage_policy: StoragePolicyReference
    assigned_to: StorageTarget
