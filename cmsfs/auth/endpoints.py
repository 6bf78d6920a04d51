"""Where the account's service is."""

from cmsfs import config
from cmsfs.client import session

# Nobody listens there: the embedded service is reached through its transport, and a URL needs a host.
EMBEDDED_URL = "http://cmsfs.embedded"


def endpoints_of(settings: config.Settings) -> session.ServiceEndpoints:
    """The addresses of the account's service.  Raises `ConfigError`."""
    profile = config.profile(settings)
    if profile.embedded:
        return session.ServiceEndpoints.of_server(EMBEDDED_URL)
    return session.ServiceEndpoints(profile.base_url, profile.upload_url, profile.auth_url)
