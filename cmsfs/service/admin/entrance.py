"""The administrators' log-in: other users get the same response as for a wrong password.

Rule: every page is wrapped in `admitted`, every form in `posted`.
"""

from cmsfs.service.admin.desk import Desk
from cmsfs.service.oauth import browser_sessions
from cmsfs.service.oauth.entrance import Entrance

_WRONG = "This login and password are no administrator's, or there were too many attempts. Wait a moment."

ENTRANCE = Entrance(
    browser_sessions.ADMIN,
    Desk,
    where="the administration",
    wrong=_WRONG,
    admits=lambda user: user["role"] in ("admin", "coadmin"),
)

admitted = ENTRANCE.admitted
posted = ENTRANCE.posted
