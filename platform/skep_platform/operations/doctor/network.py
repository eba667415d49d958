"""The doctor on the network: whether ports answer, certificates hold, and registries are there.

All addresses are those of settings, none is a user's; nothing but a sentence is kept of answers.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from skep_platform.images.registry import HUB_HOST, scheme
from skep_platform.operations.doctor.findings import (
    Finding,
    at_once,
    error,
    names,
    ok,
    warning,
)

PATIENCE_S = 4.0
EXPIRES_SOON, EXPIRES_NOW = timedelta(days=21), timedelta(days=5)
DEFAULT_PORTS = {"https": 443, "http": 80, "ldaps": 636, "ldap": 389}


def check_ports() -> Iterator[Finding]:
    """Whether this web server reaches the gateway, its own public address, and what it uses."""
    probes = {
        "gateway": partial(_healthz, settings.SKEP_GATEWAY_BACKEND),
        "public address": partial(_healthz, settings.SKEP_PUBLIC_URL),
    } | {name: partial(_connects, *address) for name, address in _servers().items()}
    answers = dict(zip(probes, at_once(probes.values()), strict=True))
    yield ok(f"They answer: {', '.join(answers)}.")
    for name, problem in answers.items():
        if not problem:
            continue
        if name == "gateway":
            action = "Start the gateway, or set SKEP_GATEWAY_BACKEND to where it is."
            yield error("gateway_unreachable", f"The gateway does not answer: {problem}", action)
        elif name == "public address":
            message = f"{settings.SKEP_PUBLIC_URL} does not answer from here: {problem}"
            action = "Look at the reverse proxy, DNS, and SKEP_PUBLIC_URL."
            yield warning("public_url_unreachable", message, action)
        else:
            message = f"The {name} cannot be reached: {problem}"
            action = "Check its address in the settings, and the firewall between."
            yield error("server_unreachable", message, action, server=name)


def _servers() -> dict[str, tuple[str, int]]:
    """Return host and port of what the settings name."""
    found: dict[str, tuple[str, int]] = {}
    if settings.EMAIL_HOST:
        found["mail server"] = settings.EMAIL_HOST, settings.EMAIL_PORT
    named = {
        "identity provider": settings.SKEP_OIDC_ISSUER,
        "directory": settings.SKEP_LDAP_URI,
        "object store": os.environ.get("SKEP_S3_ENDPOINT_URL", ""),
    }
    for name, url in named.items():
        if url and (host := urlsplit(url).hostname):
            found[name] = host, _port(url)
    return found


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or DEFAULT_PORTS.get(parts.scheme, 443)


def _healthz(url: str) -> str:
    return _answers(f"{url.rstrip('/')}/healthz", {200})


def _answers(url: str, fine: Collection[int]) -> str:
    """Return why a server does not answer with one of these codes. Its answer is not read any
    further: that could go on without end."""
    try:
        with httpx.stream("GET", url, timeout=PATIENCE_S, trust_env=False) as answer:
            code = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as failure:
        return f"{type(failure).__name__}: {failure}"[:200]
    return "" if code in fine else f"it answered {code} at {url}."


def _connects(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), PATIENCE_S).close()
    except OSError as failure:
        return f"{host}:{port}: {failure}"[:200]
    return ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """`problem`: why it is not trusted; "" when it holds. `unread`: why it could not be read from
    here, which says nothing of the certificate; "" when it was."""

    name: str
    host: str
    port: int
    expires_at: datetime | None
    problem: str
    unread: str = ""

    @property
    def address(self) -> str:
        """The host, and the port where that is not the usual one."""
        if self.port == 443:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_certificates() -> Iterator[Finding]:
    """Whether certificates are trusted here, and for how long."""
    found = certificates()
    soonest = min((c.expires_at for c in found if c.expires_at), default=None)
    until = f"; the first one expires on {soonest:%d %b %Y}" if soonest else ""
    yield ok(f"{sum(not c.unread for c in found)} certificates were read{until}.")
    now = datetime.now(UTC)
    for one in found:
        about = f"The certificate of {one.address} ({one.name})"
        if one.unread:
            action = (
                "Look at the address in the settings, at its server, and at the firewall or "
                "NetworkPolicy between."
            )
            yield warning("certificate_unread", f"{about} was not read: {one.unread}", action)
        elif one.problem:
            action = "Renew it, or install the whole chain; give the server the authority's file."
            yield error("certificate_bad", f"{about} does not hold: {one.problem}", action)
        elif one.expires_at is not None and one.expires_at - now < EXPIRES_SOON:
            say = error if one.expires_at - now < EXPIRES_NOW else warning
            message = f"{about} expires on {one.expires_at:%d %b %Y}."
            action = "Renew it, and see why it did not renew itself."
            yield say("certificate_expires", message, action, host=one.host)


def certificates() -> list[Certificate]:
    """Return the certificates of the addresses in the settings. Asks them all at once."""
    probes = [partial(read_certificate, *one) for one in _with_tls()]
    return list(at_once(probes))


def _with_tls() -> Iterator[tuple[str, str, int, str]]:
    """Return name, host, port and file of authorities ("": the system's)."""
    named = {
        "public address": settings.SKEP_PUBLIC_URL,
        "gateway": settings.SKEP_GATEWAY_URL,
        "identity provider": settings.SKEP_OIDC_ISSUER,
        "directory": settings.SKEP_LDAP_URI,
        "object store": os.environ.get("SKEP_S3_ENDPOINT_URL", ""),
    }
    for name, url in named.items():
        parts = urlsplit(url)
        if parts.scheme in ("https", "ldaps") and parts.hostname:
            authorities = settings.SKEP_LDAP_CA_FILE if name == "directory" else ""
            yield name, parts.hostname, _port(url), authorities
    apps = urlsplit(settings.SKEP_APPS_URL)
    if apps.scheme == "https" and apps.hostname:
        # Any label stands for all: the certificate has a wildcard.
        yield "apps", f"skep-doctor.{apps.hostname}", _port(settings.SKEP_APPS_URL), ""


def read_certificate(name: str, host: str, port: int, authorities: str = "") -> Certificate:
    """Return the certificate of a server, as a client sees it. Never raises."""
    try:
        context = ssl.create_default_context(cafile=authorities or None)
        with (
            socket.create_connection((host, port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            facts = connection.getpeercert() or {}
    except ssl.SSLCertVerificationError as failure:
        return Certificate(name, host, port, None, f"{failure.verify_message}.")
    except (OSError, ValueError) as failure:
        return Certificate(name, host, port, None, "", f"{failure}"[:200])
    until = ssl.cert_time_to_seconds(str(facts["notAfter"]))
    return Certificate(name, host, port, datetime.fromtimestamp(until, UTC), "")


def check_registries() -> Iterator[Finding]:
    """Whether the registries that SKEP_REGISTRIES names answer this server, which asks them
    whether images exist."""
    named = _registries()
    problems = dict(zip(named, at_once(partial(_registry, one) for one in named), strict=True))
    away = {name: problem for name, problem in problems.items() if problem}
    yield ok(f"They answer: {names(named)}." if named else "None is named in SKEP_REGISTRIES.")
    for name, problem in away.items():
        action = (
            "Check its name in SKEP_REGISTRIES, its certificate, and the firewall; nodes pull from "
            "it, too. A registry by plain HTTP stands in SKEP_INSECURE_REGISTRIES."
        )
        message = f"The registry {name} does not answer: {problem}"
        yield warning("registry_unreachable", message, action, registry=name)


def _registries() -> list[str]:
    words = [word.strip().lower() for word in settings.SKEP_REGISTRIES.split(",")]
    return [w for w in words if w and w != "public" and "/" not in w and not w.startswith("*.")]


def _registry(name: str) -> str:
    host = HUB_HOST if name == "docker.io" else name
    return _answers(f"{scheme(host)}://{host}/v2/", {200, 401, 403})
