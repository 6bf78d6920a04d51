"""Webhooks, their triggers, and the request bodies that create and change them."""

from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Model, Timestamp, UpdateBody, UserMini

# Triggers of both files and folders.
_ITEM = ("COPIED", "DELETED", "DOWNLOADED", "MOVED", "RENAMED", "RESTORED", "TRASHED")
ON_FILES = frozenset(
    [f"FILE.{word}" for word in (*_ITEM, "LOCKED", "PREVIEWED", "UNLOCKED", "UPLOADED")]
    + ["COMMENT.CREATED", "COMMENT.UPDATED", "COMMENT.DELETED"]
    + ["TASK_ASSIGNMENT.CREATED", "TASK_ASSIGNMENT.UPDATED"]
    + [f"METADATA_INSTANCE.{word}" for word in ("CREATED", "UPDATED", "DELETED")]
    + [f"SHARED_LINK.{word}" for word in ("CREATED", "UPDATED", "DELETED")]
    + [
        f"SIGN_REQUEST.{word}"
        for word in (
            *("COMPLETED", "DECLINED", "EXPIRED", "SIGNER_EMAIL_BOUNCED"),
            *("SIGN_SIGNER_SIGNED", "SIGN_DOCUMENT_CREATED", "SIGN_ERROR_FINALIZING"),
        )
    ]
    + ["WEBHOOK.DELETED"]
)
ON_FOLDERS = (
    ON_FILES
    | {f"FOLDER.{word}" for word in (*_ITEM, "CREATED")}
    | {f"COLLABORATION.{word}" for word in ("CREATED", "ACCEPTED", "REJECTED", "REMOVED", "UPDATED")}
)


def _known(words: list[str]) -> list[str]:
    for word in words:
        if word not in ON_FOLDERS:
            raise ValueError(f"{word!r} is no trigger")
    return list(dict.fromkeys(words))


Triggers = Annotated[list[str], pydantic.Field(min_length=1), pydantic.AfterValidator(_known)]
Address = Annotated[str, pydantic.Field(pattern=r"^https?://[\x21-\x7e]+$", max_length=2000)]


class WebhookTarget(Model):
    type: Literal["file", "folder"]
    id: str


class WebhookMini(Model):
    """A webhook as in lists."""

    type: Literal["webhook"] = "webhook"
    id: str
    target: dict[str, Any] | None = None


class Webhook(WebhookMini):
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    address: str | None = None
    triggers: list[str] | None = None


class NewWebhook(Model):
    target: WebhookTarget
    address: Address
    triggers: Triggers


class UpdateWebhook(UpdateBody):
    target: WebhookTarget | None = None
    address: Address | None = None
    triggers: Triggers | None = None
