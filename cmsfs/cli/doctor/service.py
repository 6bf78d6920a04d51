"""Checks of the connection to the service: DNS, TLS, clock skew, login, quota."""

import email.utils
import http.client
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

import trio

from cmsfs import config, errors, output
from cmsfs.auth import connect, token_store
from cmsfs.cli.doctor import checks as doctor_checks
from cmsfs.cli.doctor.checks import Check
from cmsfs.client import offers, session
from cmsfs.config.abilities import Ability
from cmsfs.models.enterprise import users
from cmsfs.runtime import clock
from cmsfs.service.worker import sandbox
from cmsfs.user_messages import explain

SECONDS = 10.0

# JWT assertions are valid for a minute at most, and remote changes are polled by the service's clock.
SKEW_SECONDS = 30.0

CERTIFICATE_DAYS = 14

# Below this share of free quota, uploads may soon be rejected.
LEAST_SHARE = 0.05


def checks(settings: config.Settings) -> Iterator[Check]:
    """Run all checks; skip those that depend on a failed one."""
    profile = config.profile(settings)
    if not profile.embedded:
        addresses = {url: urlsplit(url) for url in (profile.base_url, profile.upload_url, profile.auth_url)}
        hosts = list(dict.fromkeys(parts.hostname or "" for parts in addresses.values()))
        names = doctor_checks.guarded("names", lambda: _names(hosts))
        yield names
        if names.state == "failed":
            yield Check("connection", "skipped", "the service's name is not known")
            return
        connection = doctor_checks.guarded(
            "connection", lambda: _connection(settings, urlsplit(profile.auth_url))
        )
        yield connection
        if connection.state == "failed":
            yield Check("login", "skipped", "the service is not reached")
            return
        yield doctor_checks.guarded("clock", lambda: _clock(settings, urlsplit(profile.auth_url)))
    else:
        yield doctor_checks.guarded("worker", _worker)
    me: list[users.User] = []
    yield doctor_checks.guarded("login", lambda: _login(settings, me))
    if me:
        yield doctor_checks.guarded("room", lambda: _room(me[0]))
        if profile.varies:
            yield doctor_checks.guarded("operations", lambda: _operations(settings))


def _worker() -> Check:
    if sandbox.version():
        return Check("worker", "ok", "the process that reads documents is sandboxed (Landlock)")
    said = "This kernel cannot sandbox the process that reads documents for the service (no Landlock)."
    return Check("worker", "warning", said, "use Linux 5.13 or later with landlock in its lsm= list")


def _names(hosts: list[str]) -> Check:
    for host in hosts:
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            said = f"The name {host} is not known here: {error.strerror}."
            return Check(
                "names", "failed", said, f"look at the network and at base_url; `getent hosts {host}`"
            )
    return Check("names", "ok", ", ".join(hosts))


def _connection(settings: config.Settings, parts: SplitResult) -> Check:
    host, port = parts.hostname or "", _port(parts)
    try:
        with socket.create_connection((host, port), SECONDS) as plain:
            if parts.scheme != "https":
                return Check("connection", "ok", f"{host} port {port}, without TLS")
            with session.tls(settings.ca_file).wrap_socket(plain, server_hostname=host) as secured:
                version, certificate = secured.version(), secured.getpeercert()
    except ssl.SSLCertVerificationError as error:
        said = f"The certificate of {host} is not accepted: {error.verify_message}."
        return Check(
            "connection", "failed", said, "set ca_file to the authority that issued it, or the clock"
        )
    except OSError as error:
        said = f"No connection to {host} port {port}: {error.strerror or error}."
        return Check(
            "connection", "failed", said, "look at the network, a firewall, and whether the service runs"
        )
    ends = ssl.cert_time_to_seconds(str(certificate["notAfter"])) if certificate else float("inf")
    days = (ends - clock.time()) / 86400
    if days < CERTIFICATE_DAYS:
        said = f"The certificate of {host} ends in {days:.0f} days."
        return Check("connection", "warning", said, "tell who runs the service")
    return Check("connection", "ok", f"{host} port {port}, {version}")


def _clock(settings: config.Settings, parts: SplitResult) -> Check:
    host, port = parts.hostname or "", _port(parts)
    if parts.scheme == "https":
        context = session.tls(settings.ca_file)
        asked: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=SECONDS, context=context
        )
    else:
        asked = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        asked.request("HEAD", "/", headers={"User-Agent": "cmsfs"})
        before = clock.time()
        date = asked.getresponse().getheader("Date")
    except (OSError, http.client.HTTPException) as error:
        return Check("clock", "warning", f"The service's time is not to be had: {error}.")
    finally:
        asked.close()
    if date is None:
        return Check("clock", "skipped", "the service does not tell its time")
    skew = before - email.utils.parsedate_to_datetime(date).timestamp()
    # The header has whole seconds.
    if abs(skew) > SKEW_SECONDS:
        way = "ahead of" if skew > 0 else "behind"
        said = f"This machine's clock is {abs(skew):.0f} s {way} the service's."
        return Check("clock", "failed", said, "sudo timedatectl set-ntp true")
    return Check("clock", "ok", "agrees with the service's")


def _login(settings: config.Settings, me: list[users.User]) -> Check:
    async def ask() -> users.User:
        with trio.fail_after(3 * SECONDS):
            async with connect.open_backend(settings) as client:
                return await client.users.me()

    try:
        me.append(trio.run(ask))
    except errors.CmsfsError as error:
        remedy = "cmsfs login" if isinstance(error, errors.OAuthError | errors.Unauthorized) else ""
        if config.profile(settings).embedded:
            remedy = "cmsfs demo"
        return Check("login", "failed", explain(error).message, remedy)
    except trio.TooSlowError:
        return Check("login", "failed", "The service did not answer in time.", "try again")
    where = ""
    if settings.login == "person" and not config.profile(settings).embedded:
        where = f", tokens in {token_store.open_token_store(settings).title}"
    if settings.is_link:
        return Check("login", "ok", "a shared link, without an account")
    return Check("login", "ok", f"{me[0].name} <{me[0].login}>{where}")


def _room(me: users.User) -> Check:
    if me.space_amount is None or me.space_used is None or me.space_amount <= 0:
        return Check("room", "ok", "no limit is told")
    left = me.space_amount - me.space_used
    said = f"{output.size(max(0, left))} of {output.size(me.space_amount)} are left at the service"
    if left < LEAST_SHARE * me.space_amount:
        return Check(
            "room", "warning", f"Only {said}.", "delete what is not needed, and empty the trash there"
        )
    return Check("room", "ok", said)


def _operations(settings: config.Settings) -> Check:
    """Check which operations the service offers, if it may lack some."""

    async def ask() -> offers.Findings:
        with trio.fail_after(3 * SECONDS):
            async with connect.open_backend(settings) as client:
                addresses = client.endpoints
                return await offers.find_out(client.wire, addresses.base_url, addresses.upload_url)

    try:
        lacking, unclear = trio.run(ask)
    except (errors.CmsfsError, trio.TooSlowError) as error:
        said = (
            explain(error).message if isinstance(error, errors.CmsfsError) else "It did not answer in time."
        )
        return Check(
            "operations", "warning", f"What the service offers is not to be had: {said}", "try again"
        )
    able = ["search and list", "upload new files", "restore web links"]
    able += [one.cannot for one in Ability if one not in lacking | unclear]
    said = f"The service can {', '.join(able)}."
    if lacking:
        said += f" It cannot {', '.join(one.cannot for one in Ability if one in lacking)}."
    if unclear:
        said += f" It fails where asked to {', '.join(one.cannot for one in Ability if one in unclear)}."
    return Check("operations", "warning" if lacking or unclear else "ok", said)


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)
