"""The addresses of PostgreSQL and Valkey, at a TCP port or at a unix socket, as each of the clients
takes them, with the time for which it waits for a machine that is lost.

postgresql://user:password@host:5432/name       redis://:password@host:6379/0
postgresql://user:password@/name?host=/dir      unix://:password@/dir/valkey.sock?db=0
postgresql://user:password@host:5432,host/name  sentinel://:password@host,host:26379/0?master=name

With TLS: rediss:// and sentinels://.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

import psycopg
from psycopg.conninfo import make_conninfo

from skep_platform.env_settings import KEY_PREFIX

# A machine that is lost ends no connection. What was sent to it, or is waited for, ends after 8 s.
# By default libpq tries to connect for 130 s, and Linux finds out after 15 minutes, or two hours.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT = 4, 1, 4
DATABASE_TIMEOUTS: dict[str, object] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 8000,  # ms
    "keepalives_idle": KEEPALIVE_IDLE_S,
    "keepalives_interval": KEEPALIVE_INTERVAL_S,
    "keepalives_count": KEEPALIVE_COUNT,
}
# The same at the server, which else keeps the locks of a machine that lost its power for hours.
DATABASE_KEEPALIVES = {
    "tcp_keepalives_idle": str(KEEPALIVE_IDLE_S),
    "tcp_keepalives_interval": str(KEEPALIVE_INTERVAL_S),
    "tcp_keepalives_count": str(KEEPALIVE_COUNT),
    "tcp_user_timeout": "8000",
}
# A process that is stopped, or hangs, answers keepalives, and must not keep its locks for ever. As
# long as a leader may hang: none computes for so long between two statements of a transaction.
IDLE_IN_TRANSACTION = {"idle_in_transaction_session_timeout": "120s"}
KEEPALIVES = {
    socket.TCP_KEEPIDLE: KEEPALIVE_IDLE_S,
    socket.TCP_KEEPINTVL: KEEPALIVE_INTERVAL_S,
    socket.TCP_KEEPCNT: KEEPALIVE_COUNT,
}
BROKER_OPTIONS: dict[str, object] = {
    # A message whose worker was lost waits for its visibility_timeout anyway.
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "visibility_timeout": 60,
    "global_keyprefix": KEY_PREFIX,
    # Without them a worker waits for ever for a broker that went without a word.
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "socket_keepalive_options": KEEPALIVES,
    "health_check_interval": 4,
}


def database_settings(url: str) -> dict[str, Any]:
    """Return Django's settings of the database at a URL, with libpq's own parameters in OPTIONS. As
    libpq does, it takes several hosts, and a folder of sockets for a host. Raises ValueError."""
    parts = _split(url)
    name = parts.path.lstrip("/")
    if parts.scheme not in ("postgresql", "postgres") or not name:
        raise ValueError("SKEP_DATABASE_URL is to be postgresql://user:password@host:port/name")
    user, password, hosts, options = _several_hosts(url, 5432)
    # A parameter that was misspelt must not be left out: it may be the one that asks for TLS.
    try:
        make_conninfo(**options)
    except psycopg.ProgrammingError as error:
        raise ValueError(f"SKEP_DATABASE_URL: {str(error).strip()}") from None
    return {
        "HOST": options.pop("host", ",".join(host for host, _ in hosts)),
        "PORT": options.pop("port", ",".join(str(port) for _, port in hosts)),
        "USER": user,
        "PASSWORD": password,
        "NAME": name,
        "OPTIONS": options,
    }


def database_problem(url: str) -> str:
    """Why PostgreSQL cannot be found by this URL; "" when it can."""
    try:
        database_settings(url)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Redis behind Sentinel: who knows where the master is, and how to log in there."""

    hosts: tuple[tuple[str, int], ...]
    master: str
    username: str | None = None
    password: str | None = None
    sentinel_password: str | None = None
    database: int = 0
    tls: dict[str, str] | None = None  # redis-py's ssl_ options; None: without TLS

    @property
    def login(self) -> dict[str, Any]:
        """Return the options of a connection to the master."""
        login = {"username": self.username, "password": self.password, "db": self.database}
        return login | self._encryption

    @property
    def sentinel_options(self) -> dict[str, object]:
        """Return the options of a connection to a sentinel."""
        options: dict[str, object] = {"socket_timeout": 1, "socket_connect_timeout": 1}
        if self.sentinel_password:
            options["password"] = self.sentinel_password
        return options | self._encryption

    @property
    def _encryption(self) -> dict[str, object]:
        return {} if self.tls is None else {"ssl": True, **self.tls}


def sentinels(url: str) -> Sentinels | None:
    """Return what sentinel://[user]:[password]@host[:port],…/[database]?master=name says; None for
    any other URL. `sentinel_password` in the query is the password of the sentinels themselves.
    sentinels:// speaks TLS with the sentinels and with Redis, with the `ssl_` options of rediss://.
    Raises ValueError."""
    parts = _split(url)
    if parts.scheme not in ("sentinel", "sentinels"):
        return None
    username, password, named, query = _several_hosts(url, 26379)
    hosts = tuple((host, port) for host, port in named if host)
    database = parts.path.strip("/") or "0"
    if not hosts or not query.get("master") or not database.isdigit():
        raise ValueError(
            "SKEP_REDIS_URL is to be sentinel://:password@host:26379,host:26379/0?master=name"
        )
    return Sentinels(
        hosts,
        query["master"],
        username or None,
        password or None,
        query.get("sentinel_password"),
        int(database),
        _tls_options(query) if parts.scheme == "sentinels" else None,
    )


def _tls_options(query: dict[str, str]) -> dict[str, str]:
    found = {name: value for name, value in query.items() if name.startswith("ssl_")}
    # Celery, unlike all others, looks at the certificate only where it is asked to.
    return {"ssl_cert_reqs": "required"} | found


def redis_problem(url: str) -> str:
    """Why Redis cannot be found by this URL; "" when it can."""
    try:
        sentinels(url)
    except ValueError as error:
        return str(error)
    return ""


def _split(url: str) -> SplitResult:
    """Return the parts of a URL that may name several hosts: `urlsplit` refuses an IPv6 address
    that is not the only one."""
    scheme, separator, rest = url.partition("://")
    end = re.search(r"[/?#]|$", rest)
    assert end is not None
    hosts, rest = rest[: end.start()], rest[end.start() :]
    return urlsplit(f"{scheme}{separator}{rest}")._replace(netloc=hosts)


def _several_hosts(url: str, port: int) -> tuple[str, str, list[tuple[str, int]], dict[str, str]]:
    """Return user, password, hosts with their ports (`port` where none is given) and query of a URL
    that may name several hosts. Raises ValueError."""
    parts = _split(url)
    login, _, addresses = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    each = [urlsplit(f"//{address}") for address in addresses.split(",")]
    hosts = [(one.hostname or "", one.port or port) for one in each]
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return unquote(user), unquote(password), hosts, query


def redis_hosts(url: str) -> set[str]:
    """Return the names in a URL of Redis: of the server, or of the sentinels."""
    if known := sentinels(url):
        return {host for host, _ in known.hosts}
    return {urlsplit(url).hostname or ""}


def broker_options(url: str) -> dict[str, object]:
    """Return Celery's options of the broker."""
    known = sentinels(url)
    if known is None:
        return dict(BROKER_OPTIONS)
    options = {"master_name": known.master, "sentinel_kwargs": known.sentinel_options}
    return BROKER_OPTIONS | options


def broker_tls(url: str) -> dict[str, str] | bool:
    """Return Celery's options of TLS where they are not part of its URL; False without them."""
    known = sentinels(url)
    return known.tls if known and known.tls is not None else False


def broker_url(url: str) -> str:
    """The same for Celery, which has names of its own for a unix socket and its database, one URL
    for each sentinel, and trusts any certificate by default."""
    if known := sentinels(url):
        login = f"{quote(known.username or '', '')}:{quote(known.password or '', '')}@"
        return ";".join(
            f"sentinel://{login}{f'[{host}]' if ':' in host else host}:{port}/{known.database}"
            for host, port in known.hosts
        )
    parts = urlsplit(url)
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in parse_qs(parts.query):
        # Other clients look at the certificate by default, and Celery only where it is asked for.
        query = "&".join(each for each in (parts.query, "ssl_cert_reqs=required") if each)
        return parts._replace(query=query).geturl()
    if parts.scheme != "unix":
        return url
    [number] = parse_qs(parts.query).get("db", ["0"])[-1:]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"


def cache(url: str) -> dict[str, object]:
    """Return Django's cache in Redis."""
    options: dict[str, object] = {
        "serializer": "skep_platform.core.cache.JsonSerializer",
        "socket_timeout": 2,  # no request waits for a machine that is lost
        "socket_connect_timeout": 2,
    }
    if sentinels(url):
        options["pool_class"] = "skep_platform.core.redis_clients.SentinelPool"
    backend = "django.core.cache.backends.redis.RedisCache"
    # As a list: Django splits a text at its commas.
    location: object = [url] if sentinels(url) else url
    return {"BACKEND": backend, "LOCATION": location, "OPTIONS": options}


def channel_host(url: str) -> object:
    """Return the address of Redis for the channel layer."""
    known = sentinels(url)
    if known is None:
        return url
    hosts = {
        "sentinels": list(known.hosts),
        "sentinel_kwargs": known.sentinel_options,
        "master_name": known.master,
    }
    return hosts | {name: value for name, value in known.login.items() if value}
