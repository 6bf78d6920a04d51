"""The body of an error response."""

from typing import Any

from cmsfs.models.base import Model


class Problem(Model):
    """An error: `code` is for programs, `message` for people; some endpoints omit fields."""

    type: str = "error"
    status: int | None = None
    code: str = ""
    message: str = ""
    context_info: dict[str, Any] | None = None
    help_url: str | None = None
    request_id: str | None = None
