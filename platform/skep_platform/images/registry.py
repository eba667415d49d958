"""What a registry says of an image, by the distribution API of the OCI.

A user's words decide where these requests go, so they are careful: only registries that
`SKEP_REGISTRIES` allows, at addresses that were checked and are then used (no second look at the
name), without redirects, without the environment's proxies, with bounds on time and size. Nothing
that a registry answers is repeated to users but digests and numbers.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import httpx
from django.conf import settings

from skep_agent.registry_policy import (
    DOCKER_HUB,
    DOCKER_HUB_NAMES,
    RegistryPolicy,
    RegistryRefused,
    registry_of,
)

CONNECT_S = 2.0
READ_S = 3.0
MAX_BYTES = 4 * 1024**2  # of a manifest or a configuration
HUB_HOST = "registry-1.docker.io"
# These belong to Docker Hub, and are allowed where it is.
HUB_HOSTS = DOCKER_HUB_NAMES | {"auth.docker.io"}
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
TOO_MANY = httpx.codes.TOO_MANY_REQUESTS
# Answers of what stands before a registry that is down. One of 500 may be due to the reference.
AWAY = frozenset({
    httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT,
})  # fmt: skip


class RegistryError(Exception):
    """Why a registry gave no image. `kind` is "missing", "denied", "not_allowed" or
    "unreachable"; the text is a sentence for users. `away`: the registry would not answer about
    another image either; any other error may be due to this image or these credentials."""

    def __init__(self, kind: str, message: str, *, away: bool = False) -> None:
        super().__init__(message)
        self.kind, self.away = kind, away


@dataclass(frozen=True, slots=True)
class Login:
    """Credentials for one registry; empty for none."""

    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class RemoteImage:
    """An image in its registry. `size` is that of its compressed layers for Linux on x86-64, in
    bytes; `environment` and `labels` are those of its configuration."""

    digest: str
    size: int
    environment: Mapping[str, str]
    labels: Mapping[str, str]


def exists(reference: str, login: Login, deadline: float) -> str:
    """Ask for the manifest of an image and return its digest, "" where the registry does not say
    it. `deadline` is monotonic. Raises RegistryError."""
    with _Session(reference, login, deadline) as session:
        answer = session.request("HEAD", f"manifests/{session.tag}")
        return _digest(answer.headers)


def inspect(reference: str, login: Login, deadline: float) -> RemoteImage:
    """Return digest, size and configuration of an image. Raises RegistryError."""
    with _Session(reference, login, deadline) as session:
        answer = session.request("GET", f"manifests/{session.tag}")
        digest, manifest = _digest(answer.headers), _object(answer)
        if "manifests" in manifest:
            chosen = _for_linux(manifest["manifests"])
            manifest = _object(session.request("GET", f"manifests/{chosen}"))
        layers = manifest.get("layers")
        if not isinstance(layers, list):
            raise RegistryError("unreachable", "The registry's manifest has no list of layers.")
        size = sum(_size(layer) for layer in layers if isinstance(layer, Mapping))
        config = manifest.get("config")
        found = config.get("digest") if isinstance(config, Mapping) else None
        details: Any = {}
        if isinstance(found, str) and DIGEST.fullmatch(found):
            # Registries may send a client to another host for blobs; that is not followed, and the
            # configuration is then not known.
            try:
                details = _object(session.request("GET", f"blobs/{found}")).get("config") or {}
            except RegistryError:
                details = {}
        return RemoteImage(digest, size, _environment(details), _labels(details))


class _Answer(NamedTuple):
    status: int
    headers: httpx.Headers
    content: bytes


class _Session:
    """Requests about one image, at the addresses that its registry was checked to have."""

    def __init__(self, reference: str, login: Login, deadline: float) -> None:
        registry = registry_of(reference)
        self._registry = DOCKER_HUB if registry in DOCKER_HUB_NAMES else registry
        rest = reference.partition("/")[2] if _names_registry(reference) else reference
        named, at, digest = rest.partition("@")
        head, colon, tag = named.rpartition(":")
        repository = head if colon else named
        if self._registry == DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        if not REPOSITORY.fullmatch(repository):
            raise RegistryError("missing", f"{reference} is no reference of an image.")
        self.tag = digest if at else (tag if colon else "latest")
        self._repository, self._login, self._deadline = repository, login, deadline
        self._reference = reference
        self._policy = RegistryPolicy.parsed(settings.SKEP_REGISTRIES)
        self._authorization = ""

    def __enter__(self) -> _Session:
        self._client = httpx.Client(
            verify=_tls(), follow_redirects=False, trust_env=False, http2=False
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(self, method: str, path: str) -> _Answer:
        """Return the answer to a request about the image. Raises RegistryError."""
        netloc = HUB_HOST if self._registry == DOCKER_HUB else self._registry
        url = f"{scheme(netloc)}://{netloc}/v2/{self._repository}/{path}"
        headers = {"Accept": ", ".join((*MANIFESTS, *INDEXES))} if "manifests/" in path else {}
        if self._authorization:
            headers["Authorization"] = self._authorization
        answer = self._send(method, url, headers)
        if answer.status == httpx.codes.UNAUTHORIZED and not self._authorization:
            self._authorization = self._authorized(answer.headers.get("www-authenticate", ""), url)
            if self._authorization:
                headers["Authorization"] = self._authorization
                answer = self._send(method, url, headers)
        self._check(answer)
        return answer

    def _check(self, answer: _Answer) -> None:
        status = answer.status
        if status == httpx.codes.OK:
            return
        if status == httpx.codes.NOT_FOUND:
            message = f"{self._reference} is not in its registry."
            raise RegistryError("missing", message)
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            # Many registries say the same of what is private and of what is not there.
            message = f"{self._registry} does not give {self._reference} with these credentials."
            if not self._login.username:
                message = f"{self._reference} does not exist, or needs credentials."
            raise RegistryError("denied", message)
        message = f"{self._registry} answered {status}."
        raise RegistryError("unreachable", message, away=self._away(status))

    def _away(self, status: int) -> bool:
        # How often one account may ask is no matter of the others.
        return status in AWAY or (status == TOO_MANY and not self._login.username)

    def _authorized(self, challenge: str, url: str) -> str:
        """Return the header that answers a challenge; "" where there is no answer to it."""
        scheme, _, rest = challenge.partition(" ")
        said = f"{self._login.username}:{self._login.password}".encode()
        basic = f"Basic {base64.b64encode(said).decode()}"
        if scheme.lower() == "basic":
            return basic if self._login.username else ""
        parts = dict(CHALLENGE.findall(rest))
        try:
            realm = urlsplit(parts.get("realm", ""))
        except ValueError:
            return ""
        if scheme.lower() != "bearer" or realm.scheme not in ("http", "https"):
            return ""
        if realm.scheme == "http" and urlsplit(url).scheme != "http":
            return ""  # credentials go nowhere in the clear
        query = {"scope": f"repository:{self._repository}:pull"}
        if "service" in parts:
            query["service"] = parts["service"]
        address = f"{realm.scheme}://{realm.netloc}{realm.path}?{urlencode(query)}"
        headers = {"Authorization": basic} if self._login.username else {}
        answer = self._send("GET", address, headers)
        if answer.status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return ""
        if answer.status != httpx.codes.OK:
            message = f"{self._registry} gave no token."
            raise RegistryError("unreachable", message, away=self._away(answer.status))
        known = _object(answer)
        token = known.get("token") or known.get("access_token")
        return f"Bearer {token}" if isinstance(token, str) and token.isascii() else ""

    def _send(self, method: str, url: str, headers: Mapping[str, str]) -> _Answer:
        """Send a request to an address of the host that was checked."""
        parts = urlsplit(url)
        try:
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise RegistryError("unreachable", "The registry names no host.") from None
        address = self._address(host, parts.netloc.lower())
        target = f"[{address}]" if ":" in address else address
        port = port or (443 if parts.scheme == "https" else 80)
        query = f"?{parts.query}" if parts.query else ""
        pinned = f"{parts.scheme}://{target}:{port}{parts.path}{query}"
        left = self._left()
        timeout = httpx.Timeout(min(READ_S, left), connect=min(CONNECT_S, left))
        try:
            request = self._client.build_request(
                method,
                pinned,
                headers={**headers, "Host": parts.netloc, "User-Agent": "skep"},
                timeout=timeout,
                extensions={"sni_hostname": host},
            )
            answer = self._client.send(request, stream=True)
            try:
                content = b"" if method == "HEAD" else self._body(answer)
            finally:
                answer.close()
            return _Answer(answer.status_code, answer.headers, content)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            name = type(error).__name__
            away = isinstance(error, httpx.NetworkError | httpx.TimeoutException)
            raise RegistryError("unreachable", f"{self._registry}: {name}.", away=away) from None

    def _body(self, answer: httpx.Response) -> bytes:
        content = bytearray()
        for chunk in answer.iter_bytes():
            content += chunk
            self._left()
            if len(content) > MAX_BYTES:
                raise RegistryError("unreachable", f"{self._registry} sends too much.")
        return bytes(content)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            message = f"{self._registry} did not answer in time."
            raise RegistryError("unreachable", message, away=True)
        return left

    def _address(self, host: str, netloc: str) -> str:
        """Return an address of a host after a check of all of them. Raises RegistryError."""
        registry = DOCKER_HUB if host in HUB_HOSTS else netloc
        try:
            self._policy.check_name(f"{registry}/any")
            found = _resolved(host)
            self._policy.check_addresses(registry, found)
        except RegistryRefused as error:
            raise RegistryError("not_allowed", str(error), away=True) from None
        return found[0]


def _resolved(host: str) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        message = f"The name {host} has no address."
        raise RegistryError("unreachable", message, away=True) from None
    addresses = [str(entry[4][0]) for entry in found]
    # IPv4 first: a server without IPv6 would otherwise wait for a connection in vain.
    return sorted(addresses, key=lambda address: ":" in address)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def scheme(netloc: str) -> str:
    """Return "http" for loopback, as engines do, and for registries that an admin listed."""
    if netloc in settings.SKEP_INSECURE_REGISTRIES:
        return "http"
    host = (urlsplit(f"//{netloc}").hostname or "").lower()
    try:
        return "http" if ipaddress.ip_address(host).is_loopback else "https"
    except ValueError:
        return "http" if host == "localhost" else "https"


def _names_registry(reference: str) -> bool:
    first, slash, _ = reference.partition("/")
    named = "." in first or ":" in first or first == "localhost" or first != first.lower()
    return bool(slash) and named


def _digest(headers: httpx.Headers) -> str:
    found = headers.get("docker-content-digest", "")
    return found if DIGEST.fullmatch(found) else ""


def _object(answer: _Answer) -> dict[str, Any]:
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RegistryError("unreachable", "The registry's answer is no JSON object.")
    return found


def _for_linux(entries: object) -> str:
    """Return the digest of the manifest for Linux on x86-64, else of the first one."""
    known = [e for e in entries if isinstance(e, Mapping)] if isinstance(entries, list) else []
    known = [e for e in known if DIGEST.fullmatch(str(e.get("digest")))]
    for entry in known:
        platform = entry.get("platform")
        words = platform if isinstance(platform, Mapping) else {}
        if (words.get("os"), words.get("architecture")) == ("linux", "amd64"):
            return str(entry["digest"])
    if not known:
        raise RegistryError("unreachable", "The registry's index lists no manifest.")
    return str(known[0]["digest"])


def _size(layer: Mapping[str, Any]) -> int:
    size = layer.get("size")
    return size if isinstance(size, int) and 0 <= size < 2**50 else 0


def _environment(config: object) -> dict[str, str]:
    entries = config.get("Env") if isinstance(config, Mapping) else None
    words = [e for e in entries if isinstance(e, str)] if isinstance(entries, list) else []
    return dict(word.split("=", 1) for word in words if "=" in word)


def _labels(config: object) -> dict[str, str]:
    found = config.get("Labels") if isinstance(config, Mapping) else None
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}
