"""The body of an error response."""

from typing import Any

from cmsfs.models.base import Model

# The code of a 500 for a file whose content the service has lost: another try does not help.
CONTENT_LOST = "content_lost"


class Problem(Model):
    """An error: `code` is for programs, `message` for people; some endpoints omit fields."""

    type: str = "error"
    status: int | None = None
    code: str = ""
    message: str = ""
    context_info: dict[str, Any] | None = None
    help_url: str | None = None
    request_id: str | None = None
