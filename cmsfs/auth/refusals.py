"""Messages for a login or a folder that the service no longer accepts, with the remedy.

In a module of their own, without imports: a starting drive needs them before it loads the client.
"""

NOBODY = "Nobody is logged in to this account: `cmsfs login` does that."
ENDED = "The login has ended at the service: `cmsfs login` makes a new one."
REFUSED = (
    "The service does not accept the application of this login any more, or its secret: "
    "`cmsfs login --app FILE` logs in with it as it is now."
)
ANOTHER = (
    "Somebody else has logged in to this account than before: log in as who it was, and as the other one to "
    "an account of its own, `cmsfs --account NAME login`."
)

ROOT_GONE = (
    "The folder that this drive begins at is in the trash at the service, or is not shown to us any more: "
    "nothing can be changed until it is back there. What was changed before is kept, and goes then."
)

LINK_ENDED = (
    "The shared link of this drive has ended, or is not for everybody any more: nobody gets anything by it. "
    "`cmsfs umount` ends the drive, `cmsfs mount LINK` mounts another link."
)
LINK_AWAY = (
    "The shared link of this drive has ended, or does not show your account anything any more. "
    "`cmsfs umount` ends the drive, `cmsfs mount LINK` mounts another link."
)
LINK_PASSWORD = (
    "The shared link of this drive has another password now: `cmsfs mount LINK` with the same link asks "
    "for it."
)
