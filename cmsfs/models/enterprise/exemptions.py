"""Exemptions from the collaboration allowlist."""

from cmsfs.models.base import EnterpriseMini, Model, Reference, Timestamp, UserMini


class Exemption(Model):
    type: str = "collaboration_whitelist_exempt_target"
    id: str
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    enterprise: EnterpriseMini | None = None
    user: UserMini | None = None


class NewExemption(Model):
    user: Reference
