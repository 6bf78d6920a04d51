"""The endpoints of the account's service."""

from cmsfs import config
from cmsfs.client import session

# A placeholder: the embedded service is reached through its transport, but a URL needs a host.
EMBEDDED_URL = "http://cmsfs.embedded"


def endpoints_of(settings: config.Settings) -> session.ServiceEndpoints:
    """Return the endpoints of the account's service.  Raises `ConfigError`."""
    profile = config.profile(settings)
    if profile.embedded:
        return session.ServiceEndpoints.of_server(EMBEDDED_URL)
    return session.ServiceEndpoints(profile.base_url, profile.upload_url, profile.auth_url)
