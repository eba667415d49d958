"""What settings are made of that come from the environment, with checks that keep a server from
starting open. Needs no Django, so that `skep up` says the same before it starts anything."""

from __future__ import annotations

import ipaddress
import math
import os
from importlib.util import find_spec
from urllib.parse import urlsplit

from skep_agent.network.rules import PRIVATE
from skep_agent.watchdog import DEAD_WITHIN_S
from skep_limits import is_endpoint, timing_problem

QUEUES = ("scheduler", "default")
KEY_PREFIX = "skep:"  # of Celery's keys
SHORTEST_SECRET = 32  # characters
FEWEST_DIFFERENT = 8
# Of keys that are copied from an example, or that `django-admin startproject` writes.
PLACEHOLDERS = ("django-insecure", "changeme", "change-me", "change_me", "your-secret", "example")
SHORTEST_TOKEN = 16
ALLOW_HTTP = "SKEP_ALLOW_HTTP"


def number(name: str, default: float) -> float:
    """Return a setting that is a number; its default where it is not set, or empty. Raises
    ValueError with a sentence that says what is wrong."""
    text = os.environ.get(name, "").strip()
    try:
        found = float(text or default)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{name} is to be a number, without a unit, not {text[:40]!r}")
    return found


def whole_number(name: str, default: int) -> int:
    """Return a setting that is a whole number, in the same way. Raises ValueError."""
    found = number(name, default)
    if found != int(found):
        raise ValueError(f"{name} is to be a whole number, not {found:g}")
    return int(found)


def secret_key_problem(key: str) -> str:
    """Why `key` cannot sign sessions, and how to make one that can; "" when it can."""
    copied = next((word for word in PLACEHOLDERS if word in key.lower()), "")
    if copied:
        wrong = f"has {copied!r} in it, as keys of examples have, which everybody knows"
    elif len(key) >= SHORTEST_SECRET and len(set(key)) >= FEWEST_DIFFERENT:
        return ""
    else:
        wrong = f"has {len(key)} ({len(set(key))} different ones)"
    return (
        f"SKEP_SECRET_KEY needs at least {SHORTEST_SECRET} random characters and {wrong}; "
        "make one with: "
        'python -c "import secrets; print(secrets.token_urlsafe(48))"'
    )


def metrics_problem(listen: str, token: str) -> str:
    """Why metrics cannot be served at `listen`; "" when they can, or are not asked for."""
    if not listen:
        return ""
    host, port = host_and_port(listen)
    if not port:
        return f"SKEP_METRICS_LISTEN is to be address:port, not {listen!r}"
    if is_loopback(host) or len(token) >= SHORTEST_TOKEN:
        return ""
    return (
        f"SKEP_METRICS_LISTEN={listen} shows the names of virtual clusters and nodes to whoever "
        f"reaches it: set SKEP_METRICS_TOKEN to at least {SHORTEST_TOKEN} random characters, which "
        "Prometheus then sends as its bearer token, or listen on 127.0.0.1"
    )


def host_and_port(listen: str) -> tuple[str, int]:
    """Return the parts of "127.0.0.1:9100", "[::1]:9100" or ":9100" (all addresses); the port is 0
    where there is none."""
    host, colon, port = listen.rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
    return host.strip("[]"), number if colon and 0 < number < 65536 else 0


def public_url_problem(url: str, allow_http: bool) -> str:
    """Why people cannot be asked to log in at `url`; "" when they can."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"SKEP_PUBLIC_URL is to be https://host or https://host:port, not {url!r}"
    if parts.scheme == "https" or allow_http or is_loopback(parts.hostname):
        return ""
    return (
        f"SKEP_PUBLIC_URL {url} has no TLS, and {parts.hostname} is not this machine alone: "
        "passwords, tokens and secrets of jobs would cross the network in the clear. Put a proxy "
        f"with TLS in front and use its https:// address, or set {ALLOW_HTTP}=1 for a try-out."
    )


def apps_url_problem(url: str, public_url: str, allow_http: bool) -> str:
    """Why apps of jobs cannot have hosts below `url`; "" when they can, or there are none."""
    if not url:
        return ""
    parts, public = urlsplit(url), urlsplit(public_url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or parts.path or parts.query:
        return f"SKEP_APPS_URL is to be https://domain or https://domain:port, not {url[:200]!r}"
    if "." not in host or ":" in host or host.rpartition(".")[2].isdigit():
        return f"SKEP_APPS_URL needs a domain that can have names below it, not {host[:200]!r}"
    if f".{public.hostname}".endswith(f".{host}"):
        return (
            f"SKEP_APPS_URL: {public.hostname} lies in {host}, so that the code of jobs would "
            "share an origin or cookies with Skep's pages. Take a domain of its own."
        )
    local = host.endswith(".localhost")
    if parts.scheme == "http" and (public.scheme == "https" or not (allow_http or local)):
        return (
            "SKEP_APPS_URL is to be https://: logins at apps would cross the network in the clear"
        )
    return ""


def docs_url_problem(url: str) -> str:
    """Why pages cannot link the documentation at `url`; "" when they can, or it is Skep's own."""
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment or any(mark in url for mark in " \"'<>"))
    if not url or (parts.scheme in ("http", "https") and parts.hostname and plain):
        return ""
    return f"SKEP_DOCS_URL is to be https://host/path, not {url[:200]!r}"


def oidc_problem(issuer: str, client_id: str, secret: str, password_login: bool) -> str:
    """Why users cannot log in by single sign-on as it is set; "" when they can, or need not."""
    if not issuer:
        wanted = "SKEP_PASSWORD_LOGIN=0 needs SKEP_OIDC_ISSUER or SKEP_LDAP_URI."
        return "" if password_login else wanted
    parts = urlsplit(issuer)
    if len(issuer) > 200 or parts.query or parts.fragment or not parts.hostname:
        return f"SKEP_OIDC_ISSUER is to be https://host/path, not {issuer[:200]!r}"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        return "SKEP_OIDC_ISSUER is to be https://: who reads along could log in as anyone"
    if not client_id or not secret:
        return "SKEP_OIDC_ISSUER needs SKEP_OIDC_CLIENT_ID and SKEP_OIDC_CLIENT_SECRET"
    return ""


def ldap_problem(uri: str, user_base: str, *filters: str) -> str:
    """Why users cannot log in by the directory as it is set; "" when they can, or need not."""
    if not uri:
        return ""
    if find_spec("ldap") is None:
        return "SKEP_LDAP_URI needs python-ldap: pip install 'skep[ldap]'"
    parts = urlsplit(uri)
    if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path.strip("/"):
        return f"SKEP_LDAP_URI is to be ldaps://host or ldap://host:port, not {uri[:200]!r}"
    if not user_base:
        return "SKEP_LDAP_URI needs SKEP_LDAP_USER_BASE, such as ou=people,dc=example,dc=org"
    for text in filters:
        try:
            ready = text % {"user": "u", "dn": "d"}
        except (KeyError, ValueError, TypeError):
            ready = ""
        if not (ready.startswith("(") and ready.endswith(")")) or ready == text or "%s" in text:
            return f"{text[:200]!r} is no LDAP filter with %(user)s or %(dn)s"
    return ""


def gang_pool_problem(text: str) -> str:
    """Why the networks of gangs cannot come from `text`; "" when they can."""
    try:
        pool = ipaddress.IPv4Network(text)
    except ValueError:
        pool = None
    if pool is None or not 8 <= pool.prefixlen <= 24 or not any(map(pool.subnet_of, PRIVATE)):
        return f"SKEP_GANG_POOL is to be a private IPv4 network from /8 to /24, not {text[:80]!r}"
    return ""


def object_stores(text: str) -> list[str]:
    """Parse SKEP_VC_OBJECT_STORES, a comma list of addresses of object stores. Raises ValueError
    with a sentence that says what is wrong."""
    found = [part.strip().rstrip("/") for part in text.lower().split(",") if part.strip()]
    for one in found:
        if not is_endpoint(one):
            raise ValueError(f"SKEP_VC_OBJECT_STORES lists https://HOST[:PORT], not {one!r}")
    return found


def object_store_problem(url: str) -> str:
    """Why logs and files cannot be kept at `url`; "" when they can."""
    parts = urlsplit(url)
    if parts.scheme == "s3" and parts.netloc:
        return ""
    return "SKEP_LOG_STORE is to be s3://bucket or s3://bucket/prefix"


def object_store(url: str, folder: str) -> dict[str, object]:
    """Return the options of django-storages for a folder of an object store. By itself its client
    waits for minutes for a store that hangs, five times."""
    from botocore.config import Config  # only where there is such a store: it takes long to load

    parts = urlsplit(url)
    return {
        "bucket_name": parts.netloc,
        "location": f"{parts.path.strip('/')}/{folder}".lstrip("/"),
        "endpoint_url": os.environ.get("SKEP_S3_ENDPOINT_URL") or None,
        "file_overwrite": True,
        "querystring_auth": False,
        "max_memory_size": 8 * 1024 * 1024,  # of a larger file the rest goes to disk
        "client_config": Config(
            max_pool_connections=32,
            connect_timeout=5,
            read_timeout=20,
            retries={"mode": "standard", "max_attempts": 3},
        ),
    }


def lease_margin_problem(margin_s: float) -> str:
    """Why a server that waits `margin_s` longer than a node's lease could run a task twice; ""
    when it could not."""
    if margin_s >= DEAD_WITHIN_S:
        return ""
    return (
        f"SKEP_LEASE_MARGIN_S is {margin_s:g}, and a node may need up to {DEAD_WITHIN_S:g} s after "
        "the end of its lease until its containers are dead: set at least 5"
    )


def agent_timing_problem(lease_s: float, heartbeat_s: float, sample_s: float) -> str:
    """Why agents would not take what the settings ask of them; "" where they do."""
    problem = timing_problem(lease_s, heartbeat_s, sample_s)
    return problem and f"SKEP_LEASE_S, SKEP_HEARTBEAT_S, SKEP_SAMPLE_S: {problem}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`, a name or an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def proxy_list(text: str) -> list[str]:
    """Parse a comma list of addresses and networks of reverse proxies. Raises ValueError with a
    sentence that says what is wrong."""
    found = [part.strip() for part in text.split(",") if part.strip() not in ("", "0")]
    for part in found:
        try:
            network = ipaddress.ip_network(part)
        except ValueError:
            raise ValueError(
                f"SKEP_TRUSTED_PROXIES lists addresses or networks of reverse proxies, such as "
                f"10.0.0.5,10.1.0.0/16; {part!r} is neither"
            ) from None
        if network.prefixlen == 0:
            raise ValueError(f"SKEP_TRUSTED_PROXIES: {part} would believe everyone")
    return found


def networks(name: str, text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Parse a comma list of networks, of a setting of this name. Raises ValueError with a sentence
    that says what is wrong."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return [ipaddress.ip_network(part) for part in found]
    except ValueError as error:
        raise ValueError(f"{name} lists networks, such as 10.0.0.0/8,fd00::/8: {error}") from None


def smtp_problem(host: str, tls: str, password: str) -> str:
    """Why e-mails cannot be sent as it is set; "" when they can, or need not."""
    if tls not in ("starttls", "tls", "none"):
        return f"SKEP_SMTP_TLS is starttls, tls or none, not {tls[:40]!r}"
    if host and tls == "none" and password and not is_loopback(host):
        return "SKEP_SMTP_TLS=none would send SKEP_SMTP_PASSWORD in the clear"
    return ""


def scheduling() -> dict[str, float]:
    """Return the limits of the queue, in seconds; see skep_scheduler.model.Options."""
    return {
        "ageing_s": number("SKEP_SCHEDULING_AGEING_S", 600),
        "starvation_s": number("SKEP_SCHEDULING_STARVATION_S", 7200),
        "min_run_s": number("SKEP_SCHEDULING_MIN_RUN_S", 60),
        "opportunistic_min_run_s": number("SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S", 10),
        "resize_hold_s": number("SKEP_SCHEDULING_RESIZE_HOLD_S", 600),
        "cooldown_s": number("SKEP_SCHEDULING_COOLDOWN_S", 30),
        "cooldown_limit_s": number("SKEP_SCHEDULING_COOLDOWN_LIMIT_S", 1800),
    }
